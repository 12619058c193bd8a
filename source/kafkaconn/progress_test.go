package kafkaconn

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// pair returns both ends of a connection as Request.Write sees ours: bare, in an own type as tests have it, or with
// TLS.
func pair(t *testing.T, kind string) (ours *protocol.Conn, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled := dial
	if kind == "bare" {
		dialled = dialBare
	}
	conn, err := dialled(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	if kind == "tls" {
		some := httptest.NewTLSServer(nil) // for its certificate
		defer some.Close()
		theirs = tls.Server(theirs, &tls.Config{Certificates: some.TLS.Certificates})
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	ours = protocol.NewConn(conn, "client")
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	if got := bareOf(ours) != nil; got != (kind == "bare") {
		t.Fatalf("%s: taken for bare: %v", kind, got)
	}
	return ours, theirs
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var kinds = []string{"bare", "wrapped", "tls"}

func somePieces(n, bytes int) (pieces [][]byte) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range n {
		b := make([]byte, rng.IntN(2*bytes))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		pieces = append(pieces, b)
	}
	return pieces
}

// More pieces than the system takes at a time arrive in their order, also over a link that takes longer for them than a
// request may go without progress. Only a bare connection is the system's own, whose time is real: it may be slow by a second, on a busy machine.
func TestWritePieces(t *testing.T) {
	t.Run("bare", func(t *testing.T) {
		ours, theirs := pair(t, "bare")
		writePieces(t, ours, theirs, time.Second, 20*time.Millisecond)
	})
	some := httptest.NewTLSServer(nil) // for its certificate
	defer some.Close()
	for _, kind := range kinds[1:] {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, theirs := net.Pipe()
				if kind == "tls" {
					conn, theirs = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), tls.Server(theirs, &tls.Config{Certificates: some.TLS.Certificates})
				}
				writePieces(t, protocol.NewConn(conn, "client"), theirs, 200*time.Millisecond, 10*time.Millisecond)
			})
		})
	}
}

// writePieces writes to a link that takes 256 kB and then nothing for a while.
func writePieces(t *testing.T, ours *protocol.Conn, theirs net.Conn, quiet, pause time.Duration) {
	pieces := somePieces(3000, 8<<10)
	want := bytes.Join(pieces, nil)
	got := make(chan []byte)
	go func() {
		all := make([]byte, len(want))
		for at := 0; at < len(all); {
			n, err := io.ReadFull(theirs, all[at:min(at+256<<10, len(all))])
			if at += n; err != nil {
				break
			}
			time.Sleep(pause)
		}
		got <- all
	}()
	began := time.Now()
	if err := WritePieces(Patience{Quiet: quiet}.of(limited(t), ours), pieces); err != nil || time.Since(began) < quiet {
		t.Errorf("%v after %v", err, time.Since(began))
		_ = theirs.Close()
	}
	if !bytes.Equal(<-got, want) {
		t.Error("other bytes arrived")
	}
}

// A write to a link that takes nothing ends in time, and leaves the pieces alone.
func TestWriteWithoutProgress(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			ours, theirs := pair(t, kind)
			handshake(theirs)
			err := WritePieces(Patience{Quiet: 50 * time.Millisecond}.of(limited(t), ours), somePieces(3000, 8<<10))
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%v, want that the deadline is exceeded", err)
			}
		})
	}
}

// The end of the context ends a write, and then nothing reads the pieces.
func TestWriteEndsWithItsContext(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			ours, theirs := pair(t, kind)
			handshake(theirs)
			ctx, cancel := context.WithCancel(limited(t))
			time.AfterFunc(50*time.Millisecond, cancel)
			err := WritePieces(Patience{Quiet: time.Hour}.of(ctx, ours), somePieces(3000, 8<<10))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that it was cancelled", err)
			}
		})
	}
}

// handshake lets our end of a TLS connection write.
func handshake(theirs net.Conn) {
	if c, ok := theirs.(*tls.Conn); ok {
		go func() { _ = c.Handshake() }()
	}
}
