// Package status shows a running process over HTTP: the page, /ping, /ready, /version, /metrics and the JSON API.
// Begin with [Start], and end with [Server.Close]. It only reads atomics and copies of pipeline.Stats, so a reader of
// the page cannot hold up a record. Everything is read-only: GET and HEAD, nothing else.
package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline"
)

// Build names the binary.
type Build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	GoVersion string `json:"go_version"`
}

// Config says where to listen and what to show.
type Config struct {
	Listen  string   // host:port; "" = no server; port 0 = any
	Hosts   []string // names under which it answers besides its own and those of private networks; "*": any
	Debug   bool     // also /debug/pprof/* and /debug/config
	Build   Build
	Names   func() Names                             // what the pipeline works on; nil: not known
	Trouble func() *logs.Trouble                     // the newest trouble of the log, nil if there was none; the function may be nil
	Label   func(row []float64) (label int, ok bool) // the true label of a row of the pool, to colour it; nil: not known
	Masked  func() any                               // the configuration with its secrets masked, for /debug/config
	Model   Finder                                   // finds a model that belongs to one value; nil: there is one model for all rows
	Stats   *pipeline.Stats
	Log     *slog.Logger
}

// Finder returns the newest published version of a model, nil if there is none.
type Finder func(ctx context.Context, id string) (*pipeline.PublishedModel, error)

// Server is a listening status server.
type Server struct {
	http     *http.Server
	listener net.Listener
	past     *timeline
	closing  chan struct{} // closed by Close
	running  sync.WaitGroup
}

// Limits of a connection: a slow or idle client costs one goroutine for at most these times.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 30 * time.Second
	idleTimeout    = 60 * time.Second
	headerBytes    = 16 << 10
	maxConns       = 256
	maxScrapes     = 8
	maxDownloads   = 2 // of a snapshot at once: each holds one in memory until the client has it
)

// Start listens and serves until Close.
func Start(c Config) (*Server, error) {
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("status: http.listen %s: %w", c.Listen, err)
	}
	s := &Server{listener: l, past: &timeline{}, closing: make(chan struct{})}
	s.http = &http.Server{
		Handler:           readOnly(named(newHosts(c.Listen, c.Hosts), handler(c, s.past))),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	s.running.Go(func() { s.past.run(c.Stats, s.closing) })
	s.running.Go(func() {
		if err := s.http.Serve(limit(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("the status server stopped", "error", err)
		}
	})
	return s, nil
}

// Addr returns the address that it listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close stops the server and waits for it.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	close(s.closing)
	s.running.Wait()
	return err
}

func handler(c Config, past *timeline) http.Handler {
	mux := http.NewServeMux()
	registry := prometheus.NewRegistry()
	seen := &collector{stats: c.Stats, build: c.Build}
	if c.Names != nil {
		seen.model = c.Names().ModelID
	}
	registry.MustRegister(seen, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("pong\n")) })
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		code := http.StatusServiceUnavailable
		r := c.Stats.Ready()
		if r.Ready {
			code = http.StatusOK
		}
		writeJSON(w, code, r)
	})
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		b := c.Build
		b.GoVersion = runtime.Version()
		writeJSON(w, http.StatusOK, b)
	})
	mux.HandleFunc("/", page)
	api(mux, c, past)
	strangest(mux, c)
	if c.Debug {
		debug(mux, c)
	}
	return mux
}

func debug(mux *http.ServeMux, c Config) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/config", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, c.Masked()) })
}

// readOnly refuses every method that could change something, and says what a browser may do with a page.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "read-only: use GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// writeJSON encodes before it writes, so that a fault gives an error and not half an answer.
func writeJSON(w http.ResponseWriter, code int, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "status: "+err.Error(), http.StatusInternalServerError)
		return
	}
	writeText(w, code, text)
}

func writeText(w http.ResponseWriter, code int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(text)
	_, _ = w.Write([]byte{'\n'})
}
