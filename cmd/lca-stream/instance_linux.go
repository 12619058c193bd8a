package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// reserve takes a name that one process of this host can have at a time. It is the name of a socket in
// the abstract namespace: the kernel gives it back when the process dies, however it dies, and neither
// a writable directory nor a user in common is needed. Processes that share a network share the
// namespace, as pods with hostNetwork do, which have the name of the host in common too.
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
