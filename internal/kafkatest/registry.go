//go:build unix

package kafkatest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// apicurio names the pom of the registry.
const apicurio = "apicurio-2.6.13"

// registryWait is how long a registry may take to start.
const registryWait = 90 * time.Second

// Registry is an Apicurio schema registry, with its schemas in memory. It is for one goroutine.
type Registry struct {
	URL string // of Confluent's API

	t          testing.TB
	port       int // of the registry itself; the URL is a way to it, closed until it has all schemas again
	way        *Proxy
	dir        string
	proc       *Process
	registered []registered
}

// registered is a schema that the registry was given, for the next start.
type registered struct {
	subject string
	body    []byte
	id      int
}

// Reference is a schema that another one refers to.
type Reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// StartRegistry starts a registry, which ends with the test.
func StartRegistry(t testing.TB) *Registry {
	t.Helper()
	ports := testtools.Ports(t, 2)
	r := &Registry{t: t, port: ports[0], dir: keptOnFailure(t)}
	r.URL = confluentAPI(ports[1])
	r.way = startProxy(t, local(ports[1]), local(r.port))
	t.Cleanup(r.Kill)
	r.Start()
	return r
}

// confluentAPI is the URL of Confluent's API at a port.
func confluentAPI(port int) string { return "http://" + local(port) + "/apis/ccompat/v7" }

// Kill ends the registry at once.
func (r *Registry) Kill() {
	r.way.Cut()
	if r.proc != nil {
		r.proc.Kill()
		r.proc = nil
	}
}

// Start starts the registry again after Kill, with all that was registered, under the same ids. Until it has all of it, it does not answer at its URL: a
// program that asks again at that moment would be told that a schema does not exist.
func (r *Registry) Start() {
	r.t.Helper()
	log, err := os.OpenFile(filepath.Join(r.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		r.t.Fatalf("kafkatest: %v", err)
	}
	defer func() { _ = log.Close() }()
	home := registryHome(r.t)
	cmd := exec.Command(java(r.t), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		fmt.Sprintf("-Dquarkus.http.port=%d", r.port), "-Dquarkus.http.host=127.0.0.1",
		"-jar", filepath.Join(home, "apicurio-registry-app-2.6.13.Final-runner.jar"))
	cmd.Dir = home
	cmd.Stdout, cmd.Stderr = log, log
	r.proc = StartProcess(r.t, cmd, r.dir)
	for deadline := time.Now().Add(registryWait); ; time.Sleep(50 * time.Millisecond) {
		if answer, err := http.Get(confluentAPI(r.port) + "/subjects"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("kafkatest: the registry does not answer after %v:\n%s", registryWait, tail(filepath.Join(r.dir, "server.log"), 20))
		}
	}
	for _, s := range r.registered {
		if id := r.post(s.subject, s.body); id != s.id {
			r.t.Fatalf("kafkatest: the registry gave id %d again as %d: something else has registered a schema", s.id, id)
		}
	}
	if err := r.way.Heal(); err != nil {
		r.t.Fatalf("kafkatest: the way to the registry: %v", err)
	}
}

// Register registers a schema, of type AVRO, PROTOBUF or JSON, and returns its id.
func (r *Registry) Register(subject, schemaType, text string, references ...Reference) int {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{"schema": text, "schemaType": schemaType, "references": references})
	if err != nil {
		r.t.Fatalf("kafkatest: %v", err)
	}
	id := r.post(subject, body)
	r.registered = append(r.registered, registered{subject, body, id})
	return id
}

// Compatibility sets what the next schema of a subject has to be, such as BACKWARD. Kill forgets it.
func (r *Registry) Compatibility(subject, level string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPut, r.URL+"/config/"+subject, strings.NewReader(fmt.Sprintf(`{"compatibility":%q}`, level)))
	if err != nil {
		r.t.Fatalf("kafkatest: %v", err)
	}
	request.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatalf("kafkatest: %v", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		r.t.Fatalf("kafkatest: the compatibility of %s: %s", subject, answer.Status)
	}
}

func (r *Registry) post(subject string, body []byte) int {
	r.t.Helper()
	answer, err := http.Post(confluentAPI(r.port)+"/subjects/"+subject+"/versions", "application/vnd.schemaregistry.v1+json", bytes.NewReader(body))
	if err != nil {
		r.t.Fatalf("kafkatest: %v", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	var said struct {
		ID int `json:"id"`
	}
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil || answer.StatusCode != http.StatusOK {
		r.t.Fatalf("kafkatest: registering under %s: %s %v: %s", subject, answer.Status, err, text)
	}
	return said.ID
}

// registryHome is where the registry is unpacked, once.
func registryHome(t testing.TB) string {
	t.Helper()
	jars := Jars(t, apicurio)
	home := testtools.CacheDir(t, "kafka", apicurio)
	defer testtools.Lock(t, home)()
	app := filepath.Join(home, "app")
	if _, err := os.Stat(app); err == nil {
		return app
	}
	part, err := os.MkdirTemp(home, "part-")
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	defer func() { _ = os.RemoveAll(part) }()
	tar := testtools.Tool(t, "tar", "to unpack the registry", "apt-get install tar", "brew install gnu-tar")
	if out, err := exec.Command(tar, "-xzf", filepath.Join(jars, "apicurio-registry-app-2.6.13.Final-all.tar.gz"), "-C", part).CombinedOutput(); err != nil {
		t.Fatalf("kafkatest: unpacking the registry: %v\n%s", err, out)
	}
	if err := os.Rename(part, app); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return app
}
