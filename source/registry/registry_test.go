package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"go.uber.org/goleak"

	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const avroLong = `{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}`

// rig is a registry that is reached without a network, so that time can be synthetic. Its faults are answered in
// order, before the registry itself is asked.
type rig struct {
	*srfake.Registry
	mu     sync.Mutex
	faults []any // an error, a status, or a handler
	asked  []string
	states []string
}

func (r *rig) RoundTrip(q *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.asked = append(r.asked, q.Method+" "+q.URL.RequestURI())
	var fault any
	if len(r.faults) > 0 {
		fault, r.faults = r.faults[0], r.faults[1:]
	}
	r.mu.Unlock()
	answer := httptest.NewRecorder()
	switch f := fault.(type) {
	case error:
		return nil, f
	case int:
		answer.WriteHeader(f)
	case http.HandlerFunc:
		f(answer, q)
	default:
		r.Handler().ServeHTTP(answer, q)
	}
	return answer.Result(), nil
}

func (r *rig) open(t *testing.T, c Config) *Client {
	t.Helper()
	if c.URL == "" {
		c.URL = "http://registry.test:8081/"
	}
	c.Transport = r
	c.Changed = func(err error) {
		if err != nil {
			r.states = append(r.states, "down")
		} else {
			r.states = append(r.states, "up")
		}
	}
	client, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// inBubble runs a test in synthetic time with a registry that knows schema 7.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{Registry: srfake.NewRegistry()}
		r.SeedSchema("events-value", 1, 7, sr.Schema{Schema: avroLong})
		test(t, r)
	})
}

func TestASchemaIsAskedForOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		c := r.open(t, Config{})
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				s, err := c.Schema(t.Context(), 7)
				if err != nil || s.Type != format.SchemaAvro || s.ID != 7 || s.Text != avroLong {
					t.Errorf("schema %+v, %v", s, err)
				}
			})
		}
		wait.Wait()
		if diff := cmp.Diff([]string{"GET /schemas/ids/7"}, r.asked); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"up"}, r.states); diff != "" {
			t.Error(diff)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if s, err := c.Schema(ended, 7); s == nil || err != nil {
			t.Errorf("what is remembered needs no time: %v", err)
		}
	})
}

func TestThePathOfTheURLIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		c := r.open(t, Config{URL: "http://registry.test/apis/ccompat/v7/"})
		r.faults = []any{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"schema":"\"long\""}`)) })}
		if _, err := c.Schema(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"GET /apis/ccompat/v7/schemas/ids/1"}, r.asked); diff != "" {
			t.Error(diff)
		}
	})
}

// A registry whose replica lags knows an id a moment later.
func TestAnUnknownIDIsAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		c := r.open(t, Config{})
		time.AfterFunc(lookAgain/2, func() { r.SeedSchema("late-value", 1, 8, sr.Schema{Schema: `"long"`}) })
		if _, err := c.Schema(t.Context(), 8); err != nil {
			t.Errorf("after %v: %v", lookAgain/2, err)
		}
	})
}

func TestAnUnknownIDIsRememberedForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		c := r.open(t, Config{})
		began := time.Now()
		_, err := c.Schema(t.Context(), 9)
		if took := time.Since(began); !errors.Is(err, format.ErrNoSchema) || took < lookAgain || took > lookAgain+time.Second {
			t.Fatalf("%v after %v", err, took)
		}
		asked := len(r.asked)
		time.Sleep(unknownFor - time.Second)
		if _, err = c.Schema(t.Context(), 9); !errors.Is(err, format.ErrNoSchema) || len(r.asked) != asked {
			t.Errorf("%v, %d requests more", err, len(r.asked)-asked)
		}
		r.SeedSchema("late-value", 1, 9, sr.Schema{Schema: `"long"`})
		time.Sleep(2 * time.Second)
		if _, err = c.Schema(t.Context(), 9); err != nil {
			t.Errorf("after %v it is asked for again: %v", unknownFor, err)
		}
	})
}

// Ids of registries are 32-bit integers with a sign, and a path with a larger one is not theirs.
func TestAnIDBeyondTheirRangeIsUnknownAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		if _, err := r.open(t, Config{}).Schema(t.Context(), 1<<31); !errors.Is(err, format.ErrNoSchema) || len(r.asked) > 0 {
			t.Errorf("%v, asked %v", err, r.asked)
		}
	})
}

func TestARegistryThatIsAwayIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for range 20 {
			r.faults = append(r.faults, syscall.ECONNREFUSED, 503, 500, 429, context.DeadlineExceeded)
		}
		began := time.Now()
		if _, err := r.open(t, Config{}).Schema(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Minute {
			t.Errorf("100 tries within %v", took)
		}
		if diff := cmp.Diff([]string{"down", "up"}, r.states); diff != "" {
			t.Error(diff)
		}
	})
}

// A caller who leaves does not end the question: the next one finds the answer.
func TestACallerMayLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.faults = []any{syscall.ECONNREFUSED, syscall.ECONNREFUSED}
		c := r.open(t, Config{})
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := c.Schema(ended, 7); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s, err := c.Schema(ended, 7); err != nil || s == nil {
			t.Errorf("the answer was not kept: %v", err)
		}
	})
}

func TestWhatNeedsAPerson(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  any
		remedy string
	}{
		{"wrong password", 401, "source.registry.username"},
		{"no rights", 403, "the right to read"},
		{"another server", 404, "source.registry.url"},
		{"a page", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }), "source.registry.url"},
		{"a login on the same server", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/login" {
				http.Redirect(w, r, "/login?token=secret", http.StatusFound)
				return
			}
			_, _ = w.Write([]byte("\n <!DOCTYPE html>"))
		}), "a page for people, at http://registry.test:8081/login (no schema registry"},
		{"an answer without a schema", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"ok":true}`)) }), "source.registry.url"},
		{"a request that it refuses", 400, "source.registry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				for range 100 {
					r.faults = append(r.faults, c.fault)
				}
				_, err := r.open(t, Config{}).Schema(t.Context(), 7)
				var said *kafkaconn.Error
				if !errors.As(err, &said) || !strings.Contains(err.Error(), c.remedy) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%v, want a remedy with %q", err, c.remedy)
				}
			})
		})
	}
}

func TestLogin(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte("geheim\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.Registry = srfake.NewRegistry(srfake.WithAuth("Basic YW5uOmdlaGVpbQ==")) // ann:geheim
		r.SeedSchema("events-value", 1, 7, sr.Schema{Schema: avroLong})
		if _, err := r.open(t, Config{Username: "ann", PasswordFile: file}).Schema(t.Context(), 7); err != nil {
			t.Error(err)
		}
	})
}

// A password that is renewed is shown from the next request on; while its file is away, the last one is.
func TestARenewedPasswordIsShown(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		file := filepath.Join(t.TempDir(), "password")
		write := func(password string) {
			if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var shown []string
		note := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_, password, _ := q.BasicAuth()
			shown = append(shown, password)
			_, _ = w.Write([]byte(`{"schema":"\"long\""}`))
		})
		r.faults = []any{note, note, note}
		write("old")
		c := r.open(t, Config{Username: "ann", PasswordFile: file})
		for id, renew := range []func(){func() {}, func() { write("new\n") }, func() { _ = os.Remove(file) }} {
			renew()
			if _, err := c.Schema(t.Context(), id+1); err != nil {
				t.Fatal(err)
			}
		}
		if want := []string{"old", "new", "new"}; !slices.Equal(shown, want) {
			t.Errorf("shown were %q, want %q", shown, want)
		}
	})
}

// What a registry says is shown without the login, which it may repeat.
func TestARepeatedLoginIsHidden(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict} {
			r.faults = append(r.faults, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				w.WriteHeader(status)
				_, password, _ := q.BasicAuth()
				_, _ = fmt.Fprintf(w, "no %s, %s", password, q.Header.Get("Authorization"))
			}))
		}
		c := r.open(t, Config{Username: "ann", Password: "hunter2"})
		for id := 1; len(r.faults) > 0; id++ {
			_, err := c.Schema(t.Context(), id)
			if err == nil || !strings.Contains(err.Error(), "no ********, Basic ********") {
				t.Errorf("said was: %v", err)
			}
		}
	})
}

// A redirection is followed on the registry's own server, and nowhere else: not to another host, port or scheme.
func TestRedirections(t *testing.T) {
	for to, follows := range map[string]bool{
		"http://registry.test:8081/api/schemas/ids/7": true,
		"/api/schemas/ids/7":                          true,
		"http://REGISTRY.test:8081/api":               true,
		"http://registry.test:8082/schemas/ids/7":     false,
		"https://registry.test:8081/schemas/ids/7":    false,
		"http://registry.test/schemas/ids/7":          false,
		"http://evil.test:8081/schemas/ids/7":         false,
		"http://sub.registry.test:8081/schemas/ids/7": false,
		"http://169.254.169.254/latest/meta-data":     false,
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.faults = []any{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, to, http.StatusTemporaryRedirect) }),
				http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if _, password, _ := q.BasicAuth(); password != "geheim" {
						t.Errorf("%s is shown %q", to, password)
					}
					_, _ = w.Write([]byte(`{"schema":"\"long\""}`))
				})}
			_, err := r.open(t, Config{Username: "ann", Password: "geheim"}).Schema(t.Context(), 7)
			var said *kafkaconn.Error
			if follows && err != nil || !follows && (!errors.As(err, &said) || !strings.Contains(said.Remedy, "to where it leads") || len(r.asked) != 1) {
				t.Errorf("to %s: %v after %q", to, err, r.asked)
			}
		})
	}
}

func TestReferencesComeInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.SeedSchema("unit", 1, 20, sr.Schema{Schema: `"unit"`})
		r.SeedSchema("reading", 1, 21, sr.Schema{Schema: `"reading"`, References: []sr.SchemaReference{{Name: "Unit", Subject: "unit", Version: 1}}})
		r.SeedSchema("all-value", 1, 22, sr.Schema{Schema: `"all"`, Type: sr.TypeJSON, References: []sr.SchemaReference{
			{Name: "Reading", Subject: "reading", Version: 1}, {Name: "Unit", Subject: "unit", Version: 1}, {Name: "Other", Subject: "unit", Version: 1},
		}})
		c := r.open(t, Config{})
		s, err := c.Schema(t.Context(), 22)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&format.Schema{ID: 22, Type: format.SchemaJSON, Text: `"all"`, References: []format.SchemaReference{
			{Name: "Unit", Subject: "unit", Version: 1, Text: `"unit"`, Direct: true},
			{Name: "Reading", Subject: "reading", Version: 1, Text: `"reading"`, Direct: true},
			{Name: "Other", Subject: "unit", Version: 1, Text: `"unit"`, Direct: true},
		}}, s); diff != "" {
			t.Error(diff)
		}
		newest, err := c.Latest(t.Context(), "all-value")
		if err != nil || newest.ID != 22 || len(newest.References) != 3 {
			t.Errorf("newest %+v, %v", newest, err)
		}
	})
}

func TestMissingReferenceIsAnUnknownSchema(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for range 100 {
			r.faults = append(r.faults, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/schemas/ids/22" {
					_, _ = w.Write([]byte(`{"schema":"\"all\"","references":[{"name":"Unit","subject":"unit","version":3}]}`))
					return
				}
				r.Handler().ServeHTTP(w, q)
			}))
		}
		_, err := r.open(t, Config{}).Schema(t.Context(), 22)
		if !errors.Is(err, format.ErrNoSchema) || !strings.Contains(err.Error(), "version 3 of unit") {
			t.Error(err)
		}
	})
}

func TestRegister(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		c := r.open(t, Config{})
		s := &format.Schema{Type: format.SchemaAvro, Text: avroLong}
		first, err := c.Register(t.Context(), "out-value", s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := c.Register(t.Context(), "out-value", s); err != nil || again != first {
			t.Errorf("id %d, then %d, %v", first, again, err)
		}
		conflict := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error_code":409,"message":"field a has no default"}`))
		})
		r.faults = slices.Repeat([]any{conflict}, registerTimes-1) // others register it at this moment
		if again, err := c.Register(t.Context(), "out-value", s); err != nil || again != first {
			t.Errorf("after conflicts: id %d, %v", again, err)
		}
		r.faults = slices.Repeat([]any{conflict}, registerTimes)
		if _, err := c.Register(t.Context(), "out-value", s); err == nil || !strings.Contains(err.Error(), "field a has no default") || !strings.Contains(err.Error(), "compatibility") {
			t.Errorf("refused: %v", err)
		}
		r.faults = []any{503}
		if again, err := c.Register(t.Context(), "out-value", s); err != nil || again != first {
			t.Errorf("after a registry that was away: id %d, %v", again, err)
		}
	})
}

// An answer that is no id of a schema is not written into messages, and what is registered does not become a question on its way.
func TestRegisterBelievesNoOtherAnswer(t *testing.T) {
	for _, c := range []struct {
		name, body, to string
		status         int
		remedy         string // "": it is registered
	}{
		{"no id", `{}`, "", 200, "source.registry.url"},
		{"0", `{"id":0}`, "", 200, "source.registry.url"},
		{"below 0", `{"id":-1}`, "", 200, "source.registry.url"},
		{"beyond four bytes", `{"id":4294967301}`, "", 200, "source.registry.url"},
		{"text", `{"id":"5"}`, "", 200, "source.registry.url"},
		{"moved, to be asked by GET", "", "https://elsewhere.test/api", 301, "source.registry.url"},
		{"found", "", "https://elsewhere.test/api", 302, "source.registry.url"},
		{"moved, to be asked in the same way", "", "/subjects/out-value/versions", 308, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if c.to != "" {
						w.Header().Set("Location", c.to)
					}
					w.WriteHeader(c.status)
					_, _ = w.Write([]byte(c.body))
				})
				r.faults = slices.Repeat([]any{answer}, 100)
				if c.remedy == "" {
					r.faults = []any{answer}
				}
				id, err := r.open(t, Config{}).Register(t.Context(), "out-value", &format.Schema{Type: format.SchemaAvro, Text: avroLong})
				var said *kafkaconn.Error
				switch {
				case c.remedy == "" && (err != nil || id < 1):
					t.Errorf("%d, %v", id, err)
				case c.remedy != "" && (!errors.As(err, &said) || !strings.Contains(said.Remedy, c.remedy) || !strings.Contains(err.Error(), strings.TrimSuffix(c.to, "/api"))):
					t.Errorf("%d, %v, want a remedy with %q", id, err, c.remedy)
				}
			})
		})
	}
}

// What is remembered is bounded, in number and in bytes.
func TestTheOldestSchemaIsForgotten(t *testing.T) {
	const mostText = 1 << 20
	s := newSchemas(mostText)
	for id := range mostSchemas + 5 {
		s.add(&format.Schema{ID: id, Text: "x"})
		s.lack(id+10*mostSchemas, format.ErrNoSchema, unknownFor)
	}
	if known, _ := s.of(4); known != nil || len(s.byID) != mostSchemas || len(s.absent) > mostSchemas {
		t.Errorf("%d schemas, %d absent, the first: %v", len(s.byID), len(s.absent), known)
	}
	s.add(&format.Schema{ID: -1, Text: strings.Repeat("x", mostText)})
	if known, _ := s.of(-1); known == nil || len(s.byID) != 1 || s.text != mostText {
		t.Errorf("%d schemas of %d bytes", len(s.byID), s.text)
	}
}

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"http://localhost:8081":                  "http://localhost:8081",
		"https://registry.test/apis/ccompat/v7/": "https://registry.test/apis/ccompat/v7",
		"localhost:8081":                         "is not http://",
		"http://ann:secret@registry.test":        "source.registry.username",
		"http://registry.test/?key=secret":       "more than",
		"":                                       "is not http://",
	} {
		u, err := CheckURL(text)
		if err == nil && u.String() != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, u, err, want)
		}
	}
}

// A message that names a schema beyond all bounds is set aside at once, and does not stop those behind it.
func TestSchemasBeyondBounds(t *testing.T) {
	var references []string
	for i := range mostReferences + 1 {
		references = append(references, fmt.Sprintf(`{"name":"n%d","subject":"events-value","version":1}`, i))
	}
	for text, want := range map[string]string{
		`{"schema":"` + strings.Repeat(`\u0041`, defaultText) + strings.Repeat(" ", 2<<20) + `"}`: "the answer has more than 26214400 bytes",
		`{"schema":"` + strings.Repeat("x", defaultText+1) + `"}`:                                 "it has 4194305 bytes or more, at most 4194304 are read",
		`{"schema":"{}","references":[` + strings.Join(references, ",") + `]}`:                    "it refers to more than 256 schemas",
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.faults = append(r.faults, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
			c, began := r.open(t, Config{}), time.Now()
			for range 2 { // the second is remembered
				if _, err := c.Schema(t.Context(), 8); !errors.Is(err, format.ErrUnusableSchema) || !strings.Contains(err.Error(), want) || time.Since(began) > 0 {
					t.Errorf("%v after %v, want %s", err, time.Since(began), want)
				}
			}
		})
	}
}

// Which types can be read, the decoder knows.
func TestSchemasOfOtherTypes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.faults = append(r.faults, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"schema":"<schema/>","schemaType":"XSD"}`))
		}))
		if s, err := r.open(t, Config{}).Schema(t.Context(), 8); err != nil || s.Type != "XSD" || s.Text != "<schema/>" {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// What a schema refers to counts with it, however little each of them is.
func TestReferencesCountTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for i := range 20 {
			r.SeedSchema("part", i+1, 100+i, sr.Schema{Schema: `"` + strings.Repeat("x", 100<<10) + `"`})
		}
		var references []sr.SchemaReference
		for i := range 20 {
			references = append(references, sr.SchemaReference{Name: fmt.Sprint("n", i), Subject: "part", Version: i + 1})
		}
		r.SeedSchema("events-value", 2, 8, sr.Schema{Schema: `"long"`, References: references})
		_, err := r.open(t, Config{MostText: 1 << 20}).Schema(t.Context(), 8)
		if asked := len(r.asked); !errors.Is(err, format.ErrUnusableSchema) || asked > 12 {
			t.Errorf("%v after %d requests", err, asked)
		}
	})
}

// Schemas are fetched some at a time, whatever number of ids is asked for.
func TestSchemasAreFetchedInTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var now, most atomic.Int32
		for range 100 {
			r.faults = append(r.faults, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				now.Add(-1)
				_, _ = w.Write([]byte(`{"schema":"{}"}`))
			}))
		}
		c, all := r.open(t, Config{}), sync.WaitGroup{}
		for id := range 100 {
			all.Go(func() {
				if _, err := c.Schema(t.Context(), 1000+id); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := most.Load(); n > mostTurns {
			t.Errorf("%d at a time", n)
		}
	})
}

// Values that name unknown ids hold up those behind them for lookAgain, and then for as long as a request takes: 600 of them, 6 bytes each, once did for half
// a minute, and at any time later again. An id that comes a moment late is then taken a moment later.
func TestManyUnknownIDsAreWaitedForOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		c, began := r.open(t, Config{}), time.Now()
		for id := range 600 {
			if _, err := c.Schema(t.Context(), 1000+id); !errors.Is(err, format.ErrNoSchema) {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > lookAgain+time.Second {
			t.Errorf("it took %v", took)
		}
		r.SeedSchema("late-value", 1, 1599, sr.Schema{Schema: `"long"`})
		time.Sleep(lookAgain + time.Second)
		if _, err := c.Schema(t.Context(), 1599); err != nil {
			t.Errorf("after %v: %v", lookAgain, err)
		}
		time.Sleep(unknownFor)
		time.AfterFunc(lookAgain/2, func() { r.SeedSchema("later-value", 1, 8, sr.Schema{Schema: `"long"`}) })
		if _, err := c.Schema(t.Context(), 8); err != nil {
			t.Errorf("one that comes late, after a while: %v", err)
		}
	})
}
