package signer

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// asProcess is the variable that makes the test binary another process of this program: one that asks
// for the key in a directory ("current"), or replaces it ("rotate").
const asProcess = "SANDBOXMCP_TEST_KEYS"

func TestMain(m *testing.M) {
	if how := os.Getenv(asProcess); how != "" {
		os.Exit(keyProcess(how, os.Args[1]))
	}
	os.Exit(m.Run())
}

func keyProcess(how, dir string) int {
	keys, err := OpenKeys(dir, nil)
	if err == nil {
		var key *Key
		if how == "rotate" {
			key, _, err = keys.Rotate(context.Background())
		} else {
			key, err = keys.Current(context.Background())
		}
		if err == nil {
			fmt.Println(key.ID())
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
