package registry

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// A registry behind TLS is asked if ca_file names the authority of its certificate. Without that, and where the
// certificate is for another name, the answer comes at once and says what to set.
func TestCertificates(t *testing.T) {
	known := srfake.NewRegistry()
	known.SeedSchema("events-value", 1, 7, sr.Schema{Schema: avroLong})
	server := httptest.NewUnstartedServer(known.Handler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	server.StartTLS()
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, url, file string
		remedy          string // "": the schema comes
	}{
		{"an authority of ours", server.URL, authority, ""},
		{"an authority that is not known", server.URL, "", "source.registry.ca_file"},
		{"another name", strings.Replace(server.URL, "127.0.0.1", "localhost", 1), authority, "correct source.registry.url"},
		{"no TLS on this side", strings.Replace(server.URL, "https", "http", 1), "", "source.registry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := Open(Config{URL: c.url, CAFile: c.file})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			s, err := client.Schema(t.Context(), 7)
			if c.remedy == "" {
				if err != nil || s.Text != avroLong {
					t.Errorf("%v, %v", s, err)
				}
				return
			}
			var said *kafkaconn.Error
			if !errors.As(err, &said) || !strings.Contains(said.Remedy, c.remedy) {
				t.Errorf("%v, want a remedy with %q", err, c.remedy)
			}
		})
	}
	if _, err := Open(Config{URL: server.URL, CAFile: filepath.Join(t.TempDir(), "none.pem")}); err == nil || !strings.Contains(err.Error(), "source.registry.ca_file") {
		t.Errorf("a file that is not there: %v", err)
	}
}
