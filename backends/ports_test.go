package backends

import (
	"errors"
	"testing"
)

func numbers(first, n int) (list []int) {
	for i := range n {
		list = append(list, first+i)
	}
	return list
}

func TestCheckPorts(t *testing.T) {
	for _, tt := range []struct {
		name            string
		listen, gateway []int
		ok, refusal     bool
	}{
		{"none", nil, nil, true, false},
		{"both", []int{8080}, []int{80, 443}, true, false},
		{"a resolver of one's own", []int{DNSPort}, nil, true, false},
		{"as many as can be", numbers(100, MaxSockets), nil, true, false},
		{"one more", numbers(100, MaxSockets+1), nil, false, true},
		{"as many as can be, and names", numbers(100, 2), numbers(200, MaxSockets-4), true, false},
		{"one more, and names", numbers(100, 3), numbers(200, MaxSockets-4), false, true},
		{"twice", []int{80}, []int{80}, false, true},
		{"the resolver's", nil, []int{DNSPort}, false, true},
		{"zero", []int{0}, nil, false, false},
		{"too high", nil, []int{65536}, false, false},
	} {
		err := CheckPorts(Spec{Listen: tt.listen, Gateway: tt.gateway})
		var refusal *Refusal
		if (err == nil) != tt.ok || errors.As(err, &refusal) != tt.refusal {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}
