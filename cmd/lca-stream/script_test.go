package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

func TestMain(m *testing.M) {
	_ = os.Unsetenv("GOGC") // make test sets it, for the tests and not for the program
	testscript.Main(kafkatest.Tests{M: m}, map[string]func(){"lca-stream": main})
}

// TestScripts runs the program as a user does, one script a command. Scripts find an embedded broker
// at $KAFKA and the repository at $ROOT.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			b := kafkatest.Start(t, kafkatest.Embedded)
			e.Values["broker"] = b
			e.Setenv("KAFKA", b.Addrs()[0])
			e.Setenv("ROOT", root)
			for _, name := range []string{"HTTP1", "HTTP2", "HTTP3"} {
				e.Setenv(name, testtools.Address(t))
			}
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "produce": produce, "topic": topic(t), "up": up, "says": says, "rows": rows, "arrives": arrives(t), "publish": publish, "grow": grow(t), "forget": forget(t), "shows": shows},
	})
}

// code N COMMAND...: the command must end with exit code N. What it prints is for stdout and stderr.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command...")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = strconv.Itoa(exit.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// up ADDRESS: waits until the program that serves there says that it is alive.
func up(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: up address")
	}
	give := time.Now().Add(time.Minute)
	for {
		answer, err := http.Get("http://" + args[0] + "/ping")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
			err = errors.New(answer.Status)
		}
		if time.Now().After(give) {
			ts.Fatalf("%s is not up: %v", args[0], err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// says ADDRESS/PATH PATTERN: waits until the program that serves there answers with what the pattern matches.
func says(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: says address/path pattern")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	for give := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		body := []byte("no answer")
		if answer, err := http.Get("http://" + args[0]); err == nil {
			body, _ = io.ReadAll(answer.Body)
			_ = answer.Body.Close()
		}
		if pattern.Match(body) {
			return
		}
		if time.Now().After(give) {
			ts.Fatalf("%s does not say %q: %s", args[0], args[1], body)
		}
	}
}
