// Package status shows a running process over HTTP: the page, /ping, /ready, /version, /metrics and the JSON API.
// Begin with [Start], and end with [Server.Close]. It only reads atomics and copies of pipeline.Stats, so a reader of
// the page cannot hold up a record. Everything is read-only: GET and HEAD, nothing else.
package status

import (
	"container/list"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline/stats"
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
	Stats   *stats.Stats
	Log     *slog.Logger
}

// Finder returns the newest published version of a model, nil if there is none.
type Finder func(ctx context.Context, id string) (*stats.PublishedModel, error)

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
		err = fmt.Errorf("status: http.listen %s: %w", c.Listen, err)
		if host, _, e := net.SplitHostPort(c.Listen); e == nil && errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w: another process has the port; http.listen: %q takes a free one, and \"\" has no page", err, net.JoinHostPort(host, "0"))
		}
		return nil, err
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

// The page is sent as one file with its style and scripts in it, so it needs nothing from outside.
var (
	//go:embed page/page.html
	pageHTML string
	// CSS is the style of pages of ours.
	//go:embed page/page.css
	CSS string
	// ChartsJS draws on them.
	//go:embed page/charts.js
	ChartsJS string
	//go:embed page/page.js
	pageJS string

	wholePage = []byte(strings.NewReplacer("/* page.css */", CSS, "/* charts.js */", ChartsJS, "/* page.js */", pageJS).Replace(pageHTML))
)

func page(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(wholePage)
}

// hosts are the names under which the server answers. A foreign page can make a browser send a request to any address
// under a name of its own (DNS rebinding), and read the answer: the address is right, the name is not. This is no
// access control.
type hosts struct {
	loopback bool     // only this machine can ask
	names    []string // in lower case; "*": any
}

// private are endings of names that no outsider can have in the public DNS: this machine (RFC 6761), its
// network (RFC 6762, and .internal by ICANN's resolution of 2024), and a Kubernetes namespace's services.
var private = []string{".localhost", ".local", ".internal", ".svc"}

func newHosts(listen string, allowed []string) hosts {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		host = listen
	}
	h := hosts{names: []string{"localhost", strings.ToLower(host)}}
	ip, err := netip.ParseAddr(host)
	h.loopback = err == nil && ip.IsLoopback() || host == "localhost"
	if name, err := os.Hostname(); err == nil && !h.loopback {
		h.names = append(h.names, strings.ToLower(name))
	}
	for _, name := range allowed {
		h.names = append(h.names, strings.TrimSuffix(strings.ToLower(name), "."))
	}
	return h
}

// allow reports whether a request to this host is answered. An address cannot be rebound: probes and scrapes by
// address pass. Browsers always send a host; a client that sends none is no browser.
func (h hosts) allow(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "" || slices.Contains(h.names, host) || slices.Contains(h.names, "*") {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || !h.loopback
	}
	if h.loopback {
		return strings.HasSuffix(host, private[0])
	}
	return !strings.Contains(host, ".") || slices.ContainsFunc(private, func(end string) bool { return strings.HasSuffix(host, end) })
}

// named refuses requests for a host that is not this server.
func named(h hosts, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.allow(r.Host) {
			http.Error(w, fmt.Sprintf("%.260q is no name of this server: ask by address, or add the name to http.allowed_hosts", r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limit bounds the number of open connections. When one more comes, the oldest is closed. A flood of clients that
// send nothing then costs neither memory nor file descriptors, and does not keep out a later probe, as a listener
// that refuses the newest would.
func limit(l net.Listener, most int) net.Listener { return &limited{Listener: l, most: most} }

type limited struct {
	net.Listener
	most int

	mu   sync.Mutex // guards open; never held while a connection is used
	open list.List  // of *tracked, oldest first
}

// Accept returns the next connection, and closes the oldest when there are too many.
func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	t := &tracked{Conn: c, listener: l}
	if oldest := l.add(t); oldest != nil {
		_ = oldest.Close()
	}
	return t, nil
}

// add stores a connection, and returns the one that must be closed for it.
func (l *limited) add(t *tracked) (oldest *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.place = l.open.PushBack(t)
	if l.open.Len() > l.most {
		oldest = l.open.Front().Value.(*tracked)
		l.open.Remove(oldest.place)
	}
	return oldest
}

func (l *limited) forget(t *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.Remove(t.place) // does nothing when it is gone already
}

type tracked struct {
	net.Conn
	listener *limited
	place    *list.Element
}

// Close frees the connection's slot.
func (t *tracked) Close() error {
	t.listener.forget(t)
	return t.Conn.Close()
}

// shared computes an answer for all who have asked for it since the last one was begun, one at a time and shareEvery apart at least, so that
// any number of clients costs what a few do. Each gets one that was begun after it had asked.
type shared struct {
	compute func() any

	mu   sync.Mutex
	last time.Time
	next *answer // that requests wait for and that is not begun; nil: none

	one sync.Mutex // held while an answer is computed
}

// shareEvery is how far apart answers are.
const shareEvery = 100 * time.Millisecond

// answer is the JSON of an answer once done is closed.
type answer struct {
	done chan struct{}
	text []byte
	err  error
}

// ServeHTTP waits for the next answer, and computes it if it is the first that does.
func (s *shared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	a := s.next
	first := a == nil
	if first {
		a = &answer{done: make(chan struct{}), err: errors.New("it could not be computed")}
		s.next = a
	}
	wait := shareEvery - time.Since(s.last)
	s.mu.Unlock()
	if first {
		time.Sleep(wait)
		s.begin(a)
	}
	select {
	case <-a.done:
	case <-r.Context().Done():
		return
	}
	if a.err != nil {
		http.Error(w, "status: "+a.err.Error(), http.StatusInternalServerError)
		return
	}
	writeText(w, http.StatusOK, a.text)
}

// begin computes an answer. Clients that ask from then on get the one after it.
func (s *shared) begin(a *answer) {
	s.one.Lock()
	defer s.one.Unlock()
	defer close(a.done)
	s.mu.Lock()
	s.next, s.last = nil, time.Now()
	s.mu.Unlock()
	a.text, a.err = json.MarshalIndent(s.compute(), "", "  ")
}
