package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func TestPathsAnswer(t *testing.T) {
	p := busy(t)
	for name, c := range map[string]struct {
		path, accept, kind, body string
		code                     int
	}{
		"page":                      {path: "/", kind: "text/html; charset=utf-8", body: "<!doctype html>", code: 200},
		"alive":                     {path: "/ping", kind: "text/plain; charset=utf-8", body: "pong", code: 200},
		"ready":                     {path: "/ready", kind: "application/json", body: `"ready": true`, code: 200},
		"version":                   {path: "/version", kind: "application/json", body: `"go_version": "go1`, code: 200},
		"metrics":                   {path: "/metrics", kind: "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", body: "lca_build_info", code: 200},
		"status":                    {path: "/api/v1/status", kind: "application/json", body: `"eigenvalues"`, code: 200},
		"snapshot as JSON":          {path: "/api/v1/snapshots/latest", accept: "application/json", kind: "application/json", body: `"d": 3`, code: 200},
		"snapshot of a model":       {path: "/api/v1/snapshots/latest?model=m", accept: "application/json", kind: "application/json", body: `"d": 3`, code: 200},
		"snapshot of another model": {path: "/api/v1/snapshots/latest?model=other", kind: "text/plain; charset=utf-8", body: "no model of that id", code: 404},
		"snapshot as Arrow":         {path: "/api/v1/snapshots/latest", kind: "application/vnd.apache.arrow.stream", body: "lca.model_id", code: 200},
		"models":                    {path: "/api/v1/models", kind: "application/json", body: `"total": 0`, code: 200},
		"unknown":                   {path: "/nothing", kind: "text/plain; charset=utf-8", body: "not found", code: 404},
		"no profiler":               {path: "/debug/pprof/", kind: "text/plain; charset=utf-8", body: "not found", code: 404},
		"no configuration":          {path: "/debug/config", kind: "text/plain; charset=utf-8", body: "not found", code: 404},
	} {
		t.Run(name, func(t *testing.T) {
			code, header, body := fetch(t, http.MethodGet, serve(t, p, nil)+c.path, "Accept", c.accept)
			if code != c.code || header.Get("Content-Type") != c.kind || !strings.Contains(body, c.body) {
				t.Errorf("%d, %q, want %d, %q:\n%.300s", code, header.Get("Content-Type"), c.code, c.kind, body)
			}
			if header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("headers that keep a browser safe are missing: %v", header)
			}
		})
	}
}

// What an operator downloads is a snapshot like those on the topic.
func TestLatestSnapshotCanBeRead(t *testing.T) {
	p := busy(t)
	_, _, body := fetch(t, http.MethodGet, serve(t, p, nil)+"/api/v1/snapshots/latest")
	s, err := snapshot.ReadFile(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if in := p.stats.CurrentModel(); s.Version != in.Version || s.ModelID != "m" || !reflect.DeepEqual(s.Model.Ratio, in.Model.Ratio) {
		t.Errorf("version %d of %q, want %d of m", s.Version, s.ModelID, in.Version)
	}
}

func TestDebugOnRequest(t *testing.T) {
	base := serve(t, newProcess(), func(c *Config) { c.Debug = true })
	for path, want := range map[string]string{
		"/debug/pprof/": "goroutine", "/debug/pprof/heap?debug=1": "heap profile", "/debug/pprof/cmdline": "", "/debug/config": "***",
	} {
		code, _, body := fetch(t, http.MethodGet, base+path)
		switch {
		case path == "/debug/pprof/cmdline": // a command line may hold a password: --set kafka.sasl.password=…
			if code == http.StatusOK && strings.Contains(body, "test") {
				t.Errorf("%s shows the command line", path)
			}
		case code != http.StatusOK || !strings.Contains(body, want):
			t.Errorf("%s: %d, want %q in\n%.200s", path, code, want, body)
		}
	}
}

func TestReadOnly(t *testing.T) {
	base := serve(t, busy(t), func(c *Config) { c.Debug = true })
	for _, path := range []string{"/", "/ping", "/ready", "/version", "/metrics", "/api/v1/status", "/api/v1/strangest", "/api/v1/snapshots/latest", "/debug/pprof/", "/debug/config", "/nothing"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, "BREW"} {
			code, header, _ := fetch(t, method, base+path)
			if code != http.StatusMethodNotAllowed || header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q", method, path, code, header.Get("Allow"))
			}
		}
		if code, _, body := fetch(t, http.MethodHead, base+path); body != "" || code == http.StatusMethodNotAllowed {
			t.Errorf("HEAD %s: %d with %d bytes", path, code, len(body))
		}
	}
}

func TestNotReadyBeforeAModel(t *testing.T) {
	p := newProcess()
	base := serve(t, p, nil)
	if code, _, body := fetch(t, http.MethodGet, base+"/ready"); code != http.StatusServiceUnavailable || !strings.Contains(body, "starting") {
		t.Errorf("%d %s", code, body)
	}
	p.stats.SetReady(stats.Readiness{Reason: "no model yet"})
	if code, _, body := fetch(t, http.MethodGet, base+"/ready"); code != http.StatusServiceUnavailable || !strings.Contains(body, "no model yet") {
		t.Errorf("%d %s", code, body)
	}
	if code, _, _ := fetch(t, http.MethodGet, base+"/ping"); code != http.StatusOK {
		t.Errorf("a process that is not ready is alive all the same: %d", code)
	}
	if code, _, _ := fetch(t, http.MethodGet, base+"/api/v1/snapshots/latest"); code != http.StatusNotFound {
		t.Errorf("a snapshot before there is one: %d", code)
	}
	p.stats.SetReady(stats.Readiness{Ready: true})
	if code, _, _ := fetch(t, http.MethodGet, base+"/ready"); code != http.StatusOK {
		t.Errorf("%d", code)
	}
}

// Before the first model the learner's numbers are NaN, which JSON cannot say.
func TestNaNIsNull(t *testing.T) {
	p := newProcess()
	p.learn(t, 40) // less than the warm-up
	if l := p.stats.Learning(); l == nil || !math.IsNaN(l.NLL) {
		t.Fatalf("the fixture should have a NaN: %+v", l)
	}
	_, _, body := fetch(t, http.MethodGet, serve(t, p, nil)+"/api/v1/status")
	var answer struct {
		Warmup  stats.Waiting
		Learner struct{ NLL *float64 }
		Model   any
		History []any
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	if w := answer.Warmup; w.Rows != 40 || w.Wanted != 100 || !strings.Contains(w.Reason, "cannot be learnt from: 1") {
		t.Errorf("the warm-up is %+v", w)
	}
	if answer.Learner.NLL != nil || answer.Model != nil || answer.History == nil || !strings.Contains(body, `"nll": null`) {
		t.Errorf("%+v\n%s", answer, body)
	}
}

// No field of an answer is a bare float: one NaN in it would cost the whole answer.
func TestNoBareFloats(t *testing.T) {
	var visit func(path string, typ reflect.Type)
	visit = func(path string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			visit(path+"[]", typ.Elem())
		case reflect.Struct:
			if typ == reflect.TypeFor[time.Time]() || typ == reflect.TypeFor[episode.Record]() { // what is no number is null in records
				return
			}
			for i := range typ.NumField() {
				visit(path+"."+typ.Field(i).Name, typ.Field(i).Type)
			}
		case reflect.Float64, reflect.Float32:
			if _, ok := reflect.Zero(typ).Interface().(json.Marshaler); !ok {
				t.Errorf("%s is a bare %v", path, typ)
			}
		}
	}
	visit("Status", reflect.TypeFor[Status]())
	visit("Models", reflect.TypeFor[Models]())
	text, err := json.Marshal([]any{Number(math.NaN()), Number(math.Inf(1)), Rough(math.Inf(-1)), Number(0.1), Rough(1.0 / 3), Number(1e-300), Number(math.Copysign(0, -1))})
	if want := `[null,null,null,0.1,0.3333,1e-300,-0]`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

// A thousand clients that connect and say next to nothing must neither pile up nor keep a probe out.
func TestSlowClientsAreBounded(t *testing.T) {
	base := serve(t, busy(t), nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	conns := make([]net.Conn, 1000)
	for i := range conns {
		c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: x\r\nX-%d: ", i); err != nil && i < maxConns {
			t.Fatal(err)
		}
		conns[i] = c
	}
	if code, _, _ := fetch(t, http.MethodGet, base+"/ping"); code != http.StatusOK {
		t.Errorf("a probe among them: %d", code)
	}
	// The first were closed to make room: reading from them ends at once, whatever the scheduler does.
	for i, c := range conns[:len(conns)-maxConns] {
		if err := c.SetReadDeadline(time.Now().Add(headerTimeout / 2)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Fatalf("connection %d of %d is still open", i, len(conns))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := runtime.NumGoroutine() - goroutines; n > maxConns+16 {
		t.Errorf("%d goroutines more", n)
	}
	if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > 32<<20 {
		t.Errorf("%d MiB more", n>>20)
	}
}

// A header without an end is cut off by the size, not by the memory.
func TestLongHeadersAreRefused(t *testing.T) {
	c, err := net.Dial("tcp", strings.TrimPrefix(serve(t, newProcess(), nil), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(append([]byte("GET / HTTP/1.1\r\nHost: x\r\nX: "), bytes.Repeat([]byte("x"), headerBytes+8<<10)...)); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(c); !bytes.HasPrefix(answer, []byte("HTTP/1.1 431")) {
		t.Errorf("%.100q, %v", answer, err)
	}
}

func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Start(Config{Listen: l.Addr().String(), Stats: stats.NewStats(), Log: quiet()})
	if err == nil || !strings.Contains(err.Error(), `http.listen: "127.0.0.1:0" takes a free one`) {
		t.Errorf("%v; want an error that says which setting takes another port", err)
	}
}

// What a browser may be made to ask by a foreign page is refused, and what people and probes ask passes.
func TestHosts(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, listen string
		allowed      []string
		pass, refuse []string
	}{
		{"loopback", "127.0.0.1:8095", nil,
			[]string{"localhost", "localhost:8095", "LOCALHOST.", "127.0.0.1:8095", "127.0.0.2", "[::1]:8095", "[::1]", "page.localhost:8095", ""},
			[]string{"evil.example", "evil.example:8095", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.7", "[fd00::7]:8095", "lca", "lca.local", "a]b", "evil.example:x:y"}},
		{"localhost by name", "localhost:0", nil, []string{"localhost:1", "127.0.0.1"}, []string{"evil.example", "lca"}},
		{"loopback behind a proxy", "127.0.0.1:8095", []string{"metrics.Example.org"}, []string{"metrics.example.org", "METRICS.example.org:443", "localhost"}, []string{"example.org", "a.metrics.example.org"}},
		{"everywhere", ":8095", nil,
			[]string{"10.0.0.7:8095", "[fd00::7]:8095", "127.0.0.1", own, "my-transform", "my-transform:8095", "my.streams.svc", "my.streams.svc.cluster.local:8095", "host.docker.internal", "localhost"},
			[]string{"evil.example", "svc.evil.example", "10.0.0.7.evil.example", "mysvc.example"}},
		{"an address by name", "lca.example.org:8095", nil, []string{"lca.example.org", "10.0.0.7"}, []string{"evil.example"}},
		{"any name, as chosen", "0.0.0.0:8095", []string{"*"}, []string{"evil.example", "10.0.0.7"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHosts(c.listen, c.allowed)
			for _, host := range c.pass {
				if !h.allow(host) {
					t.Errorf("%q is refused", host)
				}
			}
			for _, host := range c.refuse {
				if h.allow(host) {
					t.Errorf("%q passes", host)
				}
			}
		})
	}
}

// Every page of the server is behind the check, and the refusal says what to do.
func TestRebindingIsRefused(t *testing.T) {
	base := serve(t, busy(t), nil)
	for _, path := range []string{"/", "/ping", "/ready", "/metrics", "/api/v1/status", "/api/v1/strangest", "/api/v1/snapshots/latest", "/debug/config"} {
		req, err := http.NewRequest(http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "evil.example:8095"
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text := new(strings.Builder)
		_ = answer.Write(text)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden || !strings.Contains(text.String(), "http.allowed_hosts") || strings.Contains(text.String(), "lca_") {
			t.Errorf("%s as evil.example: %s", path, text)
		}
	}
}

// Any number of clients costs one answer at a time, each of which was begun after those who get it had asked. (250 connections with 20 requests each once kept
// both processors busy for 8 s.)
func TestClientsShareAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, requests = 250, 20
		var begun, now atomic.Int64
		s := &shared{compute: func() any {
			n := begun.Add(1)
			if now.Add(1) > 1 {
				t.Error("two answers are computed at a time")
			}
			time.Sleep(time.Millisecond)
			now.Add(-1)
			return n
		}}
		started := time.Now()
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range requests {
					asked := begun.Load()
					w := httptest.NewRecorder()
					s.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
					if got, err := strconv.ParseInt(strings.TrimSpace(w.Body.String()), 10, 64); err != nil || got <= asked {
						t.Errorf("answer %d to a question after %d: %v", got, asked, err)
					}
				}
			})
		}
		all.Wait()
		if n, most := begun.Load(), int64(time.Since(started)/shareEvery)+1; n > most || n > requests+1 {
			t.Errorf("%d answers were computed in %v for %d requests", n, time.Since(started), clients*requests)
		}
		alone := time.Now()
		time.Sleep(shareEvery)
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		if took := time.Since(alone) - shareEvery; took > time.Millisecond {
			t.Errorf("a client that is alone waits for %v", took)
		}
	})
}
