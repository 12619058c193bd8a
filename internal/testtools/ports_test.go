package testtools

import (
	"fmt"
	"net"
	"sync"
	"testing"
)

// A port that a test was given is no other's, whether its program listens, is down, or has not been started yet. Half of all ports are asked for, by callers
// next to each other: without the hold, some would be given twice.
func TestPortsAreGivenOnce(t *testing.T) {
	var wait sync.WaitGroup
	given := make([][]int, 20)
	t.Run("given", func(t *testing.T) {
		for i := range given {
			wait.Go(func() { given[i] = Ports(t, 20) })
		}
		wait.Wait()
		all := map[int]bool{}
		for _, port := range given {
			for _, p := range port {
				if all[p] {
					t.Errorf("port %d was given twice", p)
				}
				all[p] = true
			}
		}
		for p := range all {
			if hold(t, p) {
				t.Fatalf("port %d is given again while the test has it", p)
			}
		}
	})
	port := given[0][0]
	if !hold(t, port) {
		t.Fatalf("port %d is not free after the test that had it", port)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("the test that has port %d cannot listen there: %v", port, err)
	}
	_ = l.Close()
}

// A port on which a program listens that knows nothing of this is not given.
func TestPortOfAStranger(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if port := l.Addr().(*net.TCPAddr).Port; hold(t, port) {
		t.Fatalf("port %d is given, where a program listens", port)
	}
}
