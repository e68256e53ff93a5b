package vault

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestMain makes the test binary a process that adds secrets, if requested: it prints the name of each as soon as
// Add has returned. Or it makes new keys of the vault, in one place or alternating between both.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "rekey" {
		rekeyAll(NewSealed(os.Args[2], nil), strings.Split(os.Args[3], ","), number(os.Args[4]))
		return
	}
	if len(os.Args) != 5 || os.Args[1] != "add" {
		os.Exit(m.Run())
	}
	s, n := NewSealed(os.Args[2], nil), number(os.Args[4])
	for i := range n {
		key := os.Args[3]
		if n > 1 {
			key += strconv.Itoa(i)
		}
		if err := s.Add(context.Background(), Entry{Namespace: "default", Key: key}, valueOf(key), false); err != nil {
			fmt.Println("error:", err)
		} else {
			fmt.Println(key) // one write(2), so that no half lines appear
		}
	}
}

func rekeyAll(s *Sealed, places []string, n int) {
	for i := range n {
		if _, _, err := s.Rekey(context.Background(), places[i%len(places)]); err != nil {
			fmt.Println("error:", err)
		} else {
			fmt.Println("rekeyed")
		}
	}
}

// rekeyer returns a process that makes n new keys.
func rekeyer(t *testing.T, dir, places string, n int) *exec.Cmd {
	t.Helper()
	cmd := adder(t, dir, places, n)
	cmd.Args[1] = "rekey"
	return cmd
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// adder returns a process that adds n secrets whose names begin with prefix; if n is 1, prefix is the name.
func adder(t *testing.T, dir, prefix string, n int) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "add", dir, prefix, strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	return cmd
}

// valueOf returns the value of a secret in these tests.
func valueOf(key string) []byte { return []byte("the value" + " that is " + key + "'s") }
