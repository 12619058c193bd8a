//go:build unix

package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// A topic that the work would wait for without end, or that would lose what is written to it, ends the start
// with exit code 2, by name and with the remedy.
func TestTopicsAreCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "start", settings{partitions: 3, features: sensorColumns})
	b.CreateTopic(t, "start-narrow", 2, nil)
	b.CreateTopic(t, "start-deleted", 1, nil)
	b.CreateTopic(t, "start-replaced", 3, map[string]string{"cleanup.policy": "compact"})
	for _, topic := range []string{"start-narrow", "start-replaced"} {
		b.CreateTopic(t, topic+"-state", 3, map[string]string{"cleanup.policy": "compact"})
	}
	for _, c := range []struct {
		name, command, set string
		says               []string
	}{
		{"the output is missing", "transform", "transform.topic=start-nowhere", []string{"start-nowhere", "create it"}},
		{"the output has fewer partitions", "run", "transform.topic=start-narrow", []string{"start-narrow (transform.topic): has 2 partitions, the source has 3", "--partitions 3"}},
		{"snapshots would be deleted", "learn", "snapshot.topic=start-deleted", []string{"start-deleted (snapshot.topic): has cleanup.policy delete", "cleanup.policy=compact"}},
		{"checkpoints would be deleted", "learn", "checkpoint.topic=start-deleted", []string{"start-deleted (checkpoint.topic): has cleanup.policy delete"}},
		{"outputs would replace each other", "transform", "transform.topic=start-replaced", []string{"start-replaced (transform.topic): has cleanup.policy compact"}},
		{"dead letters would replace each other", "run", "dead_letter.topic=start-replaced", []string{"start-replaced (dead_letter.topic): has cleanup.policy compact"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := exec.Command(s.path(), c.command, "-c", s.file, "--set", c.set).CombinedOutput()
			if got := exitCode(err); got != 2 {
				t.Errorf("exit code %d, want 2", got)
			}
			for _, want := range c.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
		})
	}
}

// A topic that is deleted under the program ends it within a bounded time, by name.
func TestTopicDeletedWhileRunning(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	topics := []string{"out-state", "check", "out", "dead", "alarms"}
	if testing.Short() {
		topics = topics[:2] // one of each stage
	}
	for _, topic := range topics {
		t.Run(topic, func(t *testing.T) {
			t.Parallel() // each waits for the time that brokers are given to find the topic again
			s := newStream(t, b, "gone-"+topic, settings{partitions: 2, features: sensorColumns, budget: "1/day"})
			wait, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 30, PerMessage: perMessage, Rate: 200})
			defer func() { stop(); wait() }()
			address := testtools.Address(t)
			p := s.program("run", "--set", "http.listen="+address)
			s.await(s.name, 400/perMessage, p)
			untilReady(t, address, true, "")
			b.DeleteTopic(t, s.topic(topic))
			untilReady(t, address, false, s.topic(topic))
			select {
			case <-p.Done():
			case <-time.After(2 * time.Minute): // 15 s until it is believed, and what is in flight has 30 s
				t.Fatal("it goes on for two minutes")
			}
			if got := p.ExitCode(); got != 2 {
				t.Errorf("exit code %d, want 2", got)
			}
			if last := lastLines(p.log, 3); !strings.Contains(last, s.topic(topic)) || !strings.Contains(last, "is missing; create it with") {
				t.Errorf("it does not name the topic:\n%s", last)
			}
			out, err := exec.Command(s.path(), "run", "-c", s.file).CombinedOutput() // it creates none for a pipeline that has begun: what was there is lost
			if !strings.Contains(string(out), "create it with") || exitCode(err) != 2 {
				t.Errorf("exit code %d of a second start:\n%s", exitCode(err), out)
			}
			if topic != "out-state" {
				return
			}
			s.command("topics", "init")
			p.start()
			s.await(s.name, s.committedSoFar(s.name)+400/perMessage, p)
			p.stop()
			if log, err := os.ReadFile(p.log); err != nil || !strings.Contains(string(log), "what was known of series is lost") {
				t.Errorf("it goes on with another topic, and does not say what is lost: %v\n%s", err, lastLines(p.log, 40))
			}
		})
	}
}

// Readiness is given once all partitions are open, is taken back with the reason while no broker answers, and
// given again. An instance for which there is no partition is ready, too.
func TestReadinessFollowsTheBrokers(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Kafka41)
	s := newStream(t, b, "ready", settings{partitions: 1, features: sensorColumns})
	wait, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 30, PerMessage: perMessage, Rate: 200})
	addresses := []string{testtools.Address(t), testtools.Address(t)}
	first := s.program("run", "--set", "http.listen="+addresses[0])
	untilReady(t, addresses[0], true, "")
	second := s.program("transform", "--set", "http.listen="+addresses[1])
	untilReady(t, addresses[1], true, "")
	// One of the two has the partition.
	standby := 0
	for _, a := range addresses {
		if r := ready(a); r.Reason == "standby: no partitions" {
			standby++
		}
	}
	if standby != 1 {
		t.Errorf("%d instances of 2 stand by for 1 partition", standby)
	}
	stop()
	wait()
	began := time.Now()
	b.Kill()
	for i, p := range []*program{first, second} {
		untilReady(t, addresses[i], false, "no broker has answered")
		if up := text(t, addresses[i], "/metrics"); !strings.Contains(up, "lca_broker_up 0\n") {
			t.Errorf("lca_broker_up is not 0 at %s", p.args[0])
		}
		plain(t, text(t, addresses[i], "/api/v1/status"))
	}
	b.Restart()
	for i, p := range []*program{first, second} {
		untilReady(t, addresses[i], true, "")
		p.alive()
		log, err := os.ReadFile(p.log)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{`"no broker answers"`, `"brokers answer again"`} {
			if !strings.Contains(string(log), line) {
				t.Errorf("the log of %s has no line %s", p.args[0], line)
			}
		}
		plain(t, string(log))
	}
	var status struct {
		Source, Output, Group, Instance string
		LastError                       struct {
			Time time.Time
			Text string
		} `json:"last_error"`
		LastCommit  time.Time          `json:"last_commit"`
		SinceCommit map[string]float64 `json:"seconds_since_commit"`
	}
	if err := json.Unmarshal([]byte(text(t, addresses[0], "/api/v1/status")), &status); err != nil {
		t.Fatal(err)
	}
	if status.Source != "ready-in" || status.Output != "ready-out" || status.Group != "ready" || status.Instance == "" || len(status.SinceCommit) == 0 {
		t.Errorf("the status names %+v", status)
	}
	if status.LastCommit.IsZero() || status.LastError.Time.Before(began) || status.LastError.Text == "" {
		t.Errorf("the outage is not in the status: %+v", status)
	}
}

// text is the answer of a page.
func text(t *testing.T, address, path string) string {
	t.Helper()
	answer, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// readiness is the answer of /ready.
type readiness struct {
	Ready  bool
	Reason string
}

func ready(address string) (r readiness) {
	answer, err := http.Get("http://" + address + "/ready")
	if err != nil {
		return readiness{Reason: err.Error()}
	}
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(&r); err != nil {
		return readiness{Reason: err.Error()}
	}
	if r.Ready != (answer.StatusCode == http.StatusOK) {
		r.Reason = "status " + answer.Status
	}
	return r
}

func untilReady(t *testing.T, address string, want bool, reason string) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); ; {
		r := ready(address)
		if r.Ready == want && strings.Contains(r.Reason, reason) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v, want ready %v, %q", address, r, want, reason)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
