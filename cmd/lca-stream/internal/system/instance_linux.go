package system

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// reserve takes a name that only one process of this host can have at a time. It is the name of a socket in the
// abstract namespace. The kernel frees it when the process dies, however it dies, and neither a writable directory
// nor a common user is needed. Processes that share a network share the namespace: pods with hostNetwork do, and they
// have the host's name in common too.
func reserve(name string) (release func(), err error) {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: "@" + name})
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errReserved
	}
	if err != nil {
		return nil, fmt.Errorf("reserve the name of this process on its host: %w", err)
	}
	return func() { _ = socket.Close() }, nil
}
