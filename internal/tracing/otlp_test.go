package tracing

import (
	"compress/gzip"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func spansNamed(name string) []*wire.ResourceSpans {
	return []*wire.ResourceSpans{{ScopeSpans: []*wire.ScopeSpans{{Spans: []*wire.Span{{Name: name}}}}}}
}

// What is set for traces goes before what is set for all signals, and its path is taken as it is.
func TestSettings(t *testing.T) {
	var path, key, tenant, name string
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		path, key, tenant = r.URL.Path, r.Header.Get("Api-Key"), r.Header.Get("X-Tenant")
		if r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("headers %v", r.Header)
		}
		var got collector.ExportTraceServiceRequest
		if z, err := gzip.NewReader(r.Body); err != nil {
			t.Error(err)
		} else if body, err := io.ReadAll(z); err != nil || proto.Unmarshal(body, &got) != nil {
			t.Errorf("%v, %x", err, body)
		} else {
			name = got.ResourceSpans[0].ScopeSpans[0].Spans[0].Name
		}
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	clean(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL + "/mine", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
		"OTEL_EXPORTER_OTLP_HEADERS": "api-key=secret, x-tenant=a%20b", "OTEL_EXPORTER_OTLP_CERTIFICATE": ca,
	})
	c, err := newClient()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.UploadTraces(t.Context(), spansNamed("one")); err != nil {
		t.Fatal(err)
	}
	if path != "/mine" || key != "secret" || tenant != "a b" || name != "one" {
		t.Errorf("%q, %q, %q, %q", path, key, tenant, name)
	}
}

// A collector that is busy is asked again; what it refuses is an error, and is not sent again.
func TestAnswers(t *testing.T) {
	part, err := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "too old"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		first  int
		body   []byte
		calls  int
		refuse string
	}{
		{"taken", 200, nil, 1, ""},
		{"busy", 503, nil, 2, ""},
		{"refused", 400, nil, 1, "400 Bad Request"},
		{"leads elsewhere", 307, nil, 1, "307 Temporary Redirect"}, // the headers may hold a key
		{"in part", 200, part, 1, "refused 3 spans: too old"},
		{"a damaged answer", 200, []byte{0x0a, 0x7f, 1}, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if calls++; calls == 1 {
					w.Header().Set("Location", "/elsewhere")
					w.WriteHeader(c.first)
					_, _ = w.Write(c.body)
				}
			}))
			defer server.Close()
			clean(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})
			client, err := newClient()
			if err != nil {
				t.Fatal(err)
			}
			err = client.UploadTraces(t.Context(), spansNamed("one"))
			if calls != c.calls || (err != nil) != (c.refuse != "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%d calls, %v", calls, err)
			}
		})
	}
}

// A collector that stays busy is given up when the time is over.
func TestTimeout(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	clean(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_TIMEOUT": "50"})
	c, err := newClient()
	if err != nil {
		t.Fatal(err)
	}
	if c.timeout != 50*time.Millisecond {
		t.Errorf("time-out %v", c.timeout)
	}
	if err := c.UploadTraces(t.Context(), spansNamed("one")); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
}
