//go:build unix

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// secured is a broker with a port for every way to be asked who one is.
type secured struct {
	*kafkatest.Broker
	setup           kafkatest.Setup
	ca, otherCA     string // files
	cert, key       string // of a client
	badCert, badKey string // of a client whose authority is unknown
	password        string
}

// in writes Java properties of a listener; line ends are escaped there.
func in(listener string, properties ...string) (lines []string) {
	for i := 0; i < len(properties); i += 2 {
		lines = append(lines, "listener.name."+listener+"."+properties[i]+"="+strings.ReplaceAll(properties[i+1], "\n", `\n`))
	}
	return lines
}

func tlsOf(listener string, p pair, trusted string) []string {
	return in(listener, "ssl.keystore.type", "PEM", "ssl.keystore.certificate.chain", p.cert, "ssl.keystore.key", p.key,
		"ssl.truststore.type", "PEM", "ssl.truststore.certificates", trusted)
}

func saslOf(listener, password string) []string {
	return in(listener, "sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"plain.sasl.jaas.config", fmt.Sprintf("org.apache.kafka.common.security.plain.PlainLoginModule required user_ann=%q;", password),
		"scram-sha-256.sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"scram-sha-512.sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required;")
}

// credentials are made once, for the broker that the tests share.
var credentials struct {
	sync.Mutex
	made *secured
}

// sharedSecured is the broker that the tests of logins share. Those who log in have names of their own, or are ann.
func sharedSecured(t *testing.T) *secured {
	t.Helper()
	credentials.Lock()
	defer credentials.Unlock()
	if credentials.made == nil {
		credentials.made = newSecured(t)
	}
	s := *credentials.made
	s.Broker = kafkatest.SharedWith(t, kafkatest.Kafka41, "secured", s.setup)
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		s.ScramUser(t, "ann", s.password, mechanism)
	}
	return &s
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	ca, other := newAuthority(t, "ours"), newAuthority(t, "other")
	later := time.Now().Add(24 * time.Hour)
	s := &secured{ca: ca.file, otherCA: other.file, password: "correct horse"}
	s.cert, s.key = ca.files("client", ca.issue("client", "", later))
	s.badCert, s.badKey = other.files("stranger", other.issue("stranger", "", later))
	setup := kafkatest.Setup{HeapMiB: 256, Listeners: []kafkatest.Listener{
		{Name: "ENCRYPTED", Protocol: "SSL"}, {Name: "MUTUAL", Protocol: "SSL"}, {Name: "EXPIRED", Protocol: "SSL"}, {Name: "ELSEWHERE", Protocol: "SSL"},
		{Name: "USERS", Protocol: "SASL_PLAINTEXT"}, {Name: "BOTH", Protocol: "SASL_SSL"},
		{Name: "TOKENS", Protocol: "SASL_PLAINTEXT"},
	}}
	for listener, p := range map[string]pair{
		"encrypted": ca.issue("broker", "", later), "mutual": ca.issue("broker", "", later), "both": ca.issue("broker", "", later),
		"expired": ca.issue("broker", "", time.Now().Add(-time.Hour)), "elsewhere": ca.issue("broker", "kafka.example", later),
	} {
		setup.Properties = append(setup.Properties, tlsOf(listener, p, ca.pem)...)
	}
	setup.Properties = append(setup.Properties, in("mutual", "ssl.client.auth", "required")...)
	setup.Properties = append(setup.Properties, in("both", "ssl.client.auth", "required")...)
	setup.Properties = append(setup.Properties, saslOf("users", s.password)...)
	setup.Properties = append(setup.Properties, saslOf("both", s.password)...)
	setup.Properties = append(setup.Properties, bearers("tokens")...)
	s.setup = setup
	return s
}

// Each way in works with the right credentials and is refused with the wrong ones: within seconds,
// with exit code 2 and a word that says what to change. Kafka itself often just hangs up.
func TestSecurityOfARealBroker(t *testing.T) {
	t.Parallel()
	b, tokens := sharedSecured(t), startIssuer(t)
	b.CreateTopic(t, "events", 1, nil)
	trusted := "tls: {enabled: true, ca_file: " + b.ca + "}"
	client := fmt.Sprintf("tls: {enabled: true, ca_file: %s, cert_file: %s, key_file: %s}", b.ca, b.cert, b.key)
	stranger := fmt.Sprintf("tls: {enabled: true, ca_file: %s, cert_file: %s, key_file: %s}", b.ca, b.badCert, b.badKey)
	user := func(mechanism, password string) string {
		return fmt.Sprintf("sasl: {mechanism: %s, username: ann, password: %q}", mechanism, password)
	}
	for _, c := range []struct{ name, listener, kafka, reason string }{ // reason "": it works
		{"TLS", "ENCRYPTED", trusted, ""},
		{"TLS with a client certificate", "MUTUAL", client, ""},
		{"PLAIN", "USERS", user("plain", b.password), ""},
		{"SCRAM-SHA-256", "USERS", user("scram_sha_256", b.password), ""},
		{"SCRAM-SHA-512", "USERS", user("scram_sha_512", b.password), ""},
		{"SCRAM-SHA-512 and a client certificate", "BOTH", client + ", " + user("scram_sha_512", b.password), ""},
		{"a token", "TOKENS", tokens.login(clientSecret, "any"), ""},

		{"another authority", "ENCRYPTED", "tls: {enabled: true, ca_file: " + b.otherCA + "}", "kafka.tls.ca_file"},
		{"the system's authorities", "ENCRYPTED", "tls: {enabled: true}", "kafka.tls.ca_file"},
		{"an expired certificate", "EXPIRED", trusted, "expired"},
		{"a certificate for another host", "ELSEWHERE", trusted, "advertised.listeners"},
		{"no client certificate", "MUTUAL", trusted, "kafka.tls.cert_file"},
		{"a stranger's certificate", "MUTUAL", stranger, "kafka.tls.cert_file"},
		{"plain text to a TLS port", "ENCRYPTED", "", "kafka.tls.enabled"},
		{"TLS to a plain port", "USERS", trusted + ", " + user("plain", b.password), "plain text"},
		{"no login", "USERS", "", "kafka.sasl"},
		{"a wrong password, PLAIN", "USERS", user("plain", "wrong"), "kafka.sasl.username, password"},
		{"a wrong password, SCRAM-SHA-256", "USERS", user("scram_sha_256", "wrong"), "kafka.sasl.username, password"},
		{"a wrong password, SCRAM-SHA-512", "BOTH", client + ", " + user("scram_sha_512", "wrong"), "kafka.sasl.username, password"},
		{"a wrong secret of a client", "TOKENS", tokens.login("wrong", "any"), "401 Unauthorized: invalid_client no such client (check kafka.sasl.oauth)"},
		{"a token that is refused", "TOKENS", tokens.login(clientSecret, "expired"), "kafka.sasl.oauth.scopes"},
		{"a password where a token is wanted", "TOKENS", user("plain", b.password), "kafka.sasl.mechanism"},
		{"a right password without TLS", "BOTH", user("scram_sha_512", b.password), "kafka.tls.enabled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "stream.yaml")
			text := fmt.Sprintf("kafka: {brokers: [%s], %s}\nsource: {topic: events}\nhttp: {listen: \"\"}\n", strings.Join(b.Listener(c.listener), ", "), c.kafka)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s := &stream{t: t}
			command := []string{"run"} // which needs topics that are not there
			if c.reason == "" {
				command = []string{"topics", "init", "--set", "transform.topic=out-" + c.listener + fmt.Sprint(len(c.kafka)), "--set", "snapshot.topic=snap", "--set", "checkpoint.topic=check"}
			}
			path := s.path()
			began := time.Now()
			out, err := exec.Command(path, append(command, "-c", file)...).CombinedOutput()
			took := time.Since(began)
			t.Logf("%v: %s", took.Round(time.Millisecond), lastLine(out))
			if c.reason == "" {
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			if code := exitCode(err); code != 2 || !strings.Contains(lastLine(out), c.reason) {
				t.Errorf("exit code %d, want 2 and a last line that says %q:\n%s", code, c.reason, out)
			}
			if took > 90*time.Second { // some seconds, and 15 more each time that a busy machine lets a request run out of time; one that retried would never end
				t.Errorf("it took %v to refuse", took)
			}
		})
	}
}

func exitCode(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// The whole program over SCRAM and mutual TLS, judged as everywhere. Over tokens too: these end while it runs, earlier than
// their server says, and brokers end the connections that showed them and refuse them to new ones; new tokens are asked
// for, and nothing is lost or doubled.
func TestEveryLogin(t *testing.T) {
	t.Parallel()
	b, tokens := sharedSecured(t), startIssuer(t)
	for _, c := range []struct {
		name, listener, kafka string
		load                  kafkatest.Load
	}{
		{"encrypted", "BOTH", fmt.Sprintf(", tls: {enabled: true, ca_file: %s, cert_file: %s, key_file: %s}, sasl: {mechanism: scram_sha_512, username: ann, password: %q}",
			b.ca, b.cert, b.key, b.password), kafkatest.Load{Bad: 0.02, Invalid: 0.05}},
		{"tokens", "TOKENS", ", " + tokens.login(clientSecret, "behind"), kafkatest.Load{Rate: 800}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStream(t, b.Broker, c.name, settings{partitions: 2, features: sensorColumns, brokers: b.Listener(c.listener), kafka: c.kafka})
			asked := tokens.given.Load()
			c.load.Topic, c.load.Data, c.load.Rows, c.load.PerMessage = s.topic("in"), "sensors", 8000, perMessage
			wait, _ := b.Load(t, c.load)
			run := s.program("run")
			done := wait()
			s.await(s.name, int64(done.Messages+done.Bad), run)
			run.stop()
			s.check(done.Rows, 1)
			if n := tokens.given.Load() - asked; c.name == "tokens" && n < 3 {
				t.Errorf("%d tokens in the time of three", n)
			}
		})
	}
}
