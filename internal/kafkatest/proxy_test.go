package kafkatest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// A proxy that breaks as it says is what the tests of a broken network stand on.
func TestProxy(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	p := startProxy(t, testtools.Address(t), echo.Addr().String())
	dial := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", p.listen)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c, bufio.NewReader(c)
	}
	ask := func(c net.Conn, r *bufio.Reader, word string, patience time.Duration) error {
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, word+"\n"); err != nil {
			return err
		}
		got, err := r.ReadString('\n')
		if err == nil && strings.TrimSpace(got) != word {
			t.Errorf("%q came back as %q", word, got)
		}
		return err
	}
	must := func(c net.Conn, r *bufio.Reader, word string) {
		t.Helper()
		if err := ask(c, r, word, time.Minute); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
	}
	c, r := dial()
	must(c, r, "whole")
	if p.Passed() != 12 {
		t.Errorf("%d bytes passed, want 12", p.Passed())
	}
	p.Delay(200 * time.Millisecond)
	began := time.Now()
	must(c, r, "late")
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("a delay of 200 ms each way took %v", took)
	}
	p.Slow(100)
	began = time.Now()
	must(c, r, strings.Repeat("s", 49))
	if took := time.Since(began); took < time.Second {
		t.Errorf("50 bytes there and back at 100 bytes per second took %v", took)
	}
	p.BlackHole()
	var timeout net.Error
	if err := ask(c, r, "void", 300*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("in a black hole: %v, want a timeout", err)
	}
	p.Reset()
	if err := p.Heal(); err != nil {
		t.Fatal(err)
	}
	if err := ask(c, r, "broken", time.Minute); err == nil {
		t.Error("a connection outlived a reset")
	}
	c, r = dial()
	must(c, r, "again")
	p.Cut()
	if _, err := net.Dial("tcp", p.listen); err == nil {
		t.Error("a cut way takes connections")
	}
	if err := p.Heal(); err != nil {
		t.Fatal(err)
	}
	c, r = dial()
	must(c, r, "again")
}
