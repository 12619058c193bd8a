package main

import (
	"context"
	"io"
)

// interruptible ends a read when its context ends. A read of a pipe in which nothing comes cannot be ended otherwise, so it goes on in a goroutine that
// ends with the process, and what it was reading into is given up.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(b []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := i.r.Read(b)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
}
