package testtools

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports returns n TCP ports of 127.0.0.1 for programs that listen later, or again after a restart. They are the test's until it ends: the holder of a number's
// UDP port may take its TCP port, and no two programs can hold one, so that tests of any checkout that are at work at the same time have different ports. They are
// below the range from which systems take the ports of outgoing connections (32768 and up).
func Ports(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for try := 0; len(ports) < n && try < 1000; try++ {
		if port := 12000 + rand.IntN(20000); hold(t, port) {
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		t.Fatalf("no %d free ports in 12000–32000", n)
	}
	return ports
}

// hold takes a port for the test, unless it is another's.
func hold(t testing.TB, port int) bool {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	held, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", address)
	if err != nil { // a program that knows nothing of this
		_ = held.Close()
		return false
	}
	_ = l.Close()
	t.Cleanup(func() { _ = held.Close() })
	return true
}

// Address is 127.0.0.1 with one of Ports.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Ports(t, 1)[0])
}
