package kafkaconn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A password that is renewed in its file is shown at the next login; while the file is away, the last one is.
func TestARenewedPasswordIsShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old\n")
	m, err := SASL{Mechanism: SASLPlain, Username: "ann", PasswordFile: file}.mechanism()
	if err != nil {
		t.Fatal(err)
	}
	login := func(want string) {
		t.Helper()
		if _, message, err := m.Start(t.Context()); err != nil || string(message) != "\x00ann\x00"+want || m.Name() != "PLAIN" {
			t.Errorf("%s shows %q, %v, want %s", m.Name(), message, err, want)
		}
	}
	login("old")
	write("new\n")
	login("new")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	login("new")
	for _, name := range []Mechanism{SASLScramSHA256, SASLScramSHA512} {
		write("old")
		m, err := SASL{Mechanism: name, Username: "ann", PasswordFile: file}.mechanism()
		if err != nil || !strings.HasPrefix(m.Name(), "SCRAM-") {
			t.Fatal(err)
		}
		if _, message, err := m.Start(t.Context()); err != nil || !strings.Contains(string(message), "n=ann") {
			t.Errorf("%s: %q, %v", name, message, err)
		}
	}
}
