package container

import (
	"strings"
	"testing"
)

func TestGPUs(t *testing.T) {
	for text, ok := range map[string]bool{
		"all": true, "0": true, "0,1": true, "3,12": true,
		"": false, ",": false, "0,": false, "-1": false, "00": false, "100": false, "0,all": false, "all,all": false, "ALL": false,
		"GPU-1": false, "0;1": false, "1,1": false, "../sda": false, "0\n": false, "none": false,
	} {
		if err := CheckGPUs(strings.Split(text, ",")); (err == nil) != ok {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if err := CheckGPUs(nil); err != nil {
		t.Error(err)
	}
}
