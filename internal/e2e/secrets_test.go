//go:build unix

package e2e_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// secret is something that must never be seen, and how the program comes to know it.
func secret(random *rand.Rand) string {
	const letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	s := make([]byte, 24)
	for i := range s {
		s[i] = letters[random.IntN(len(letters))]
	}
	return string(s)
}

// place is text that the program has shown to the outside.
type place struct{ name, text string }

// leaks looks for secrets as they are, and as the usual encodings would show them.
func leaks(secrets map[string]string, places []place) (found []string) {
	for what, s := range secrets {
		for _, form := range []string{s, base64.StdEncoding.EncodeToString([]byte(s)), hex.EncodeToString([]byte(s)), strconv.Quote(s)} {
			for _, p := range places {
				if strings.Contains(p.text, form) {
					found = append(found, fmt.Sprintf("%s is in %s", what, p.name))
				}
			}
		}
	}
	return found
}

// Twelve secrets, from the file, the environment, the command line's files and what brokers say, are
// nowhere to be seen: in logs at debug level, on any HTTP path, in the process arguments, on any topic,
// in what the other commands print, in what is printed when things go wrong.
func TestSecretsStaySecret(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	b := sharedSecured(t)
	secrets := map[string]string{}
	for _, what := range []string{
		"the password in the file", "a wrong password in the file", "the password in the environment", "a wrong password in the environment",
		"the password in a password file", "a wrong password in a password file", "a password with a file that is missing", "a password with a slip in its key's name",
		"a password given by --set", "a password of an unknown mechanism",
	} {
		secrets[what] = secret(random)
	}
	for what, file := range map[string]string{"the client's key": b.key, "a stranger's key": b.badKey} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		secrets[what] = strings.Split(string(text), "\n")[2] // a line from the middle of the PEM
	}
	if len(secrets) != 12 {
		t.Fatalf("%d secrets", len(secrets))
	}
	for i, what := range []string{"the password in the file", "the password in the environment", "the password in a password file", "a password given by --set"} {
		b.ScramUser(t, fmt.Sprintf("user%d", i), secrets[what], "SCRAM-SHA-512")
	}
	var places []place
	client := fmt.Sprintf("tls: {enabled: true, ca_file: %s, cert_file: %s, key_file: %s}", b.ca, b.cert, b.key)
	stranger := fmt.Sprintf("tls: {enabled: true, ca_file: %s, cert_file: %s, key_file: %s}", b.ca, b.badCert, b.badKey)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}

	// The whole program with secrets that are right, one way after the other.
	t.Setenv("LCA_TEST_PASSWORD", secrets["the password in the environment"])
	s := newStream(t, b.Broker, "secrets", settings{partitions: 1, features: sensorColumns, brokers: b.Listener("BOTH"),
		kafka: fmt.Sprintf(", %s, sasl: {mechanism: scram_sha_512, username: user0, password: %q}", client, secrets["the password in the file"])})
	wait, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 30, PerMessage: perMessage, Rate: 1000, Bad: 0.02})
	address := testtools.Address(t)
	for i, more := range [][]string{
		nil,
		{"--set", "kafka.sasl.username=user1", "--set", "kafka.sasl.password=${LCA_TEST_PASSWORD}"},
		{"--set", "kafka.sasl.username=user2", "--set", "kafka.sasl.password=", "--set", "kafka.sasl.password_file=" + write("password", secrets["the password in a password file"]+"\n")},
	} {
		args := append([]string{"run", "--set", "http.listen=" + address, "--set", "http.debug_endpoints=true"}, more...)
		p := s.program(args...)
		s.await(s.name, s.committedSoFar(s.name)+600/perMessage, p)
		arguments, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(p.Pid())).Output()
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, place{fmt.Sprintf("the arguments of run %d", i), string(arguments)})
		for _, path := range []string{"/", "/ping", "/ready", "/version", "/metrics", "/api/v1/status", "/api/v1/snapshots/latest", "/debug/config",
			"/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline", "/debug/pprof/heap?debug=1"} {
			places = append(places, place{fmt.Sprintf("%s of run %d", path, i), get(t, "http://"+address+path)})
		}
		p.stop()
	}
	stop()
	wait()
	for _, command := range [][]string{{"config", "print"}, {"doctor"}, {"topics", "check"}, {"snapshot", "list"}, {"inspect", s.topic("in"), "-n", "2"}} {
		out, _ := exec.Command(s.path(), append(command, "-c", s.file)...).CombinedOutput()
		places = append(places, place{fmt.Sprint(command), string(out)})
	}
	places = append(places, s.refused(secrets, client, stranger, write)...)
	for _, topic := range []string{"out", "dead", "snap", "check"} {
		var all strings.Builder
		for _, r := range b.ReadCommitted(t, s.topic(topic)) {
			all.Write(r.Key)
			all.Write(r.Value)
			for _, h := range r.Headers {
				all.WriteString(h.Key)
				all.Write(h.Value)
			}
		}
		places = append(places, place{"topic " + topic, all.String()})
	}
	log, err := os.ReadFile(filepath.Join(s.dir, "run.log"))
	if err != nil {
		t.Fatal(err)
	}
	places = append(places, place{"the log", string(log)})
	for _, p := range places {
		if len(p.text) == 0 {
			t.Errorf("%s is empty: nothing was looked at", p.name)
		}
	}
	for _, leak := range leaks(secrets, places) {
		t.Error(leak)
	}
	if len(leaks(secrets, append(places, place{"a place", "x" + secrets["a password given by --set"]}))) == 0 {
		t.Error("a leak is not found")
	}
	t.Logf("%d secrets in none of %d places", len(secrets), len(places))
}

// refused starts the program with secrets that are wrong, in files that are, and returns what it says.
func (s *stream) refused(secrets map[string]string, client, stranger string, write func(name, text string) string) (places []place) {
	s.t.Helper()
	file := func(what, kafka string) string {
		return write(what+".yaml", fmt.Sprintf("kafka: {brokers: [%s], %s}\nsource: {topic: %s}\nhttp: {listen: \"\"}\nlogger: {level: debug}\n",
			strings.Join(s.Listener("BOTH"), ", "), kafka, s.topic("in")))
	}
	login := func(rest string) string {
		return client + ", sasl: {mechanism: scram_sha_512, username: user0, " + rest + "}"
	}
	s.t.Setenv("LCA_TEST_WRONG", secrets["a wrong password in the environment"])
	for what, args := range map[string][]string{
		"a wrong password in the file":             {file("1", login("password: "+secrets["a wrong password in the file"]))},
		"a wrong password in the environment":      {file("2", login("password: ${LCA_TEST_WRONG}"))},
		"a wrong password in a password file":      {file("3", login("password_file: "+write("wrong", secrets["a wrong password in a password file"])))},
		"a password with a file that is missing":   {file("4", login("password_file: /nowhere, password: "+secrets["a password with a file that is missing"]))},
		"a password with a slip in its key's name": {file("5", login("pasword: "+secrets["a password with a slip in its key's name"]))},
		"a password of an unknown mechanism":       {file("6", "sasl: {mechanism: kerberos, username: u, password: "+secrets["a password of an unknown mechanism"]+"}")},
		"a stranger's key":                         {file("7", stranger+", sasl: {mechanism: plain, username: u, password: p}")},
		"the password by --set, and no topics":     {file("8", login("password: x")), "--set", "kafka.sasl.password=" + secrets["a password given by --set"], "--set", "kafka.sasl.username=user3", "--set", "transform.topic=nowhere"},
	} {
		out, err := exec.Command(s.path(), append([]string{"run", "-c"}, args...)...).CombinedOutput()
		if exitCode(err) == 0 {
			s.t.Errorf("%s: it runs", what)
		}
		places = append(places, place{"what is said of " + what, string(out)})
	}
	return places
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(res.Status, res.Header, string(body))
}
