package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lca-stream/lca-stream/source"
)

// receiver is an OTLP collector over HTTP that keeps what it gets.
type receiver struct {
	mu       sync.Mutex
	spans    []*wire.Span
	resource map[string]string
	faults   []error
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	var got collector.ExportTraceServiceRequest
	if err = errors.Join(err, proto.Unmarshal(body, &got)); err == nil && q.URL.Path != "/v1/traces" {
		err = fmt.Errorf("path %s", q.URL.Path)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.faults = append(r.faults, err)
	}
	for _, rs := range got.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			r.resource[a.Key] = a.Value.GetStringValue()
		}
		for _, s := range rs.ScopeSpans {
			r.spans = append(r.spans, s.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// clean takes OpenTelemetry's variables of the machine away, so that a test says all of them.
func clean(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	} {
		t.Setenv(name, env[name])
	}
	for _, name := range []string{"HEADERS", "TIMEOUT", "COMPRESSION", "CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		for _, prefix := range []string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"} {
			t.Setenv(prefix+name, env[prefix+name])
		}
	}
}

// A batch is a span with links to the traces of its records, and its transaction is a child of it.
func TestSpans(t *testing.T) {
	r := &receiver{resource: map[string]string{}}
	server := httptest.NewServer(r)
	defer server.Close()
	clean(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"})
	tr, err := Start(t.Context(), "1.2.3", slog.New(slog.DiscardHandler))
	if err != nil || tr == nil {
		t.Fatalf("%v, %v", tr, err)
	}
	const one, two = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	b := &source.Batch{}
	for _, parent := range []string{one, "", two, one, "nonsense"} {
		m := source.Message{Headers: []source.Header{{Key: "other", Value: []byte("x")}}}
		if parent != "" {
			m.Headers = append(m.Headers, source.Header{Key: "traceparent", Value: []byte(parent)})
		}
		b.Messages = append(b.Messages, m)
	}
	begin := tr.Loop("transform", "events", "g")
	ctx, ended := begin(t.Context(), "process", b)
	_, committed := begin(ctx, "commit", nil)
	committed(errors.New("broker gone"))
	ended(nil)
	tr.Close()

	if len(r.faults) > 0 || len(r.spans) != 2 {
		t.Fatalf("%d spans, %v", len(r.spans), r.faults)
	}
	commit, process := r.spans[0], r.spans[1]
	var linked []string
	for _, l := range process.Links {
		linked = append(linked, hex.EncodeToString(l.TraceId)+"-"+hex.EncodeToString(l.SpanId))
	}
	if diff := cmp.Diff([]string{one[3:52], two[3:52]}, linked); diff != "" {
		t.Error(diff)
	}
	if process.Name != "transform events" || process.Kind != wire.Span_SPAN_KIND_CONSUMER || len(process.ParentSpanId) != 0 || process.Status.GetCode() != wire.Status_STATUS_CODE_UNSET {
		t.Errorf("%+v", process)
	}
	if commit.Name != "commit" || !bytes.Equal(commit.ParentSpanId, process.SpanId) || commit.Status.Message != "broker gone" {
		t.Errorf("%+v", commit)
	}
	if r.resource["service.name"] != "lca-stream" || r.resource["service.version"] != "1.2.3" || r.resource["deployment.environment.name"] != "test" {
		t.Errorf("resource %v", r.resource)
	}
}

func TestOnlyWhenAskedFor(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, c := range map[string]struct {
		env    map[string]string
		on     bool
		refuse string
	}{
		"nothing is said":        {},
		"where to":               {env: map[string]string{endpoint: "http://localhost:1"}, on: true},
		"to the usual place":     {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, on: true},
		"not traces":             {env: map[string]string{endpoint: "http://localhost:1", "OTEL_TRACES_EXPORTER": "none"}},
		"nothing at all":         {env: map[string]string{endpoint: "http://localhost:1", "OTEL_SDK_DISABLED": "true"}},
		"an exporter of its own": {env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, refuse: "want otlp or none"},
		"no scheme":              {env: map[string]string{endpoint: "collector:4318"}, refuse: `"collector:4318"; want http://`},
		"no time":                {env: map[string]string{endpoint: "http://localhost:1", "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, refuse: "want milliseconds"},
		"another compression":    {env: map[string]string{endpoint: "http://localhost:1", "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}, refuse: "want gzip or none"},
		"a header without value": {env: map[string]string{endpoint: "http://localhost:1", "OTEL_EXPORTER_OTLP_HEADERS": "secret"}, refuse: "want name=value"},
		"no certificate":         {env: map[string]string{endpoint: "https://localhost:1", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere"}, refuse: "/nowhere"},
		"half a client":          {env: map[string]string{endpoint: "https://localhost:1", "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/nowhere"}, refuse: "_CLIENT_KEY"},
		"gRPC":                   {env: map[string]string{endpoint: "http://localhost:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, refuse: "want http/protobuf"},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t, c.env)
			tr, err := Start(t.Context(), "v", slog.New(slog.DiscardHandler))
			if (tr != nil) != c.on || (err != nil) != (c.refuse != "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%v, %v", tr, err)
			}
			tr.Close() // of nil, too
		})
	}
}

// A collector that is away costs a line in the log, and nothing else.
func TestCollectorAway(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	url := away.URL
	away.Close()
	clean(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url})
	var out bytes.Buffer
	tr, err := Start(t.Context(), "v", slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	_, ended := tr.Loop("learn", "events", "g")(context.Background(), "process", &source.Batch{})
	ended(nil)
	tr.Close()
	if !strings.Contains(out.String(), "were not sent") && !strings.Contains(out.String(), "traces are lost") {
		t.Errorf("log: %s", out.String())
	}
}
