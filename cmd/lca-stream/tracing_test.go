package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
)

// With an endpoint in the environment both stages send their batches and transactions.
func TestTracesOfTheDemo(t *testing.T) {
	var mu sync.Mutex
	var all strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		mu.Lock()
		defer mu.Unlock()
		all.Write(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	p, _, stderr := inTest()
	if code := execute(t.Context(), p, []string{"demo", "--rows", "1000", "--json"}); code != app.ExitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"transform events", "learn events", "commit", "service.name"} {
		if !strings.Contains(all.String(), want) { // names stand in protobuf as they are
			t.Errorf("no %q in what the collector got (%d bytes)", want, all.Len())
		}
	}
}

// What cannot be done is said before anything starts.
func TestTracesThatCannotBe(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	p, _, stderr := inTest()
	if code := execute(t.Context(), p, []string{"demo", "--rows", "1000", "--json"}); code != app.ExitUsage || !strings.Contains(stderr.String(), "want otlp or none") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
