package credentials

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Authorities are those of a file in place of the system's, MoreAuthorities are both.
func TestAuthorities(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	both, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	alone := x509.NewCertPool()
	for name, c := range map[string]struct {
		read func(file, key string) (*x509.CertPool, error)
		want *x509.CertPool
	}{"a file's": {Authorities, alone}, "a file's and the system's": {MoreAuthorities, both}} {
		c.want.AppendCertsFromPEM(text)
		if got, err := c.read(file, "a.key"); err != nil || !got.Equal(c.want) {
			t.Errorf("%s: not these, or %v", name, err)
		}
		if got, err := c.read("", "a.key"); got != nil || err != nil {
			t.Errorf("%s: without a file %v, %v; want the system's", name, got, err)
		}
	}
}
