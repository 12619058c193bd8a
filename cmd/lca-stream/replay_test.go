package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/replay"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// history is a topic to replay, on one broker.
type history struct {
	*kafkatest.Broker
	config string // file
	began  time.Time
}

const (
	historyParts    = 3
	historyMessages = 20 // of each partition
	historyRows     = 30 // of each message
)

// newHistory fills a topic whose partitions have interleaved timestamps: message i of all of them is
// at began + 3i + p seconds, but partition 2 has one that is late. Two messages are of no use, and
// one row. began is ahead of the clock because the mark of a transaction has the time of its commit, and
// would be the first thing after any time in the past.
func newHistory(t *testing.T, kind kafkatest.Kind) *history {
	t.Helper()
	h := &history{Broker: kafkatest.Shared(t, kind), config: filepath.Join(t.TempDir(), "stream.yaml"), began: time.Now().Add(10 * time.Minute).UTC().Truncate(time.Second)}
	text := fmt.Sprintf("kafka: {brokers: [%q]}\nlca: {neighbours: 200, warmup_rows: 100}\nhttp: {listen: \"\"}\ndead_letter: {topic: dead}\n", h.Addrs()[0])
	if err := os.WriteFile(h.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	h.CreateTopic(t, "events", historyParts, nil)
	h.CreateTopic(t, "dead", 1, nil)
	for _, topic := range []string{"lca-snapshots", "lca-checkpoints"} {
		h.CreateTopic(t, topic, 1, map[string]string{"cleanup.policy": "compact"})
	}
	var msgs []sink.Message
	for i := range historyMessages {
		for p := range historyParts {
			m := sink.Message{Topic: "events", Partition: int32(p), Value: jsonRows(uint64(100*p + i)), Time: h.began.Add(time.Duration(3*i+p) * time.Second)}
			switch {
			case p == 0 && i == 4:
				m.Value = []byte("\x01 neither Arrow nor JSON")
			case p == 1 && i == 5:
				m.Value = []byte(`{"a": 1, "b": "two", "c": 3}`)
			case p == 1 && i == 6:
				m.Value = append(m.Value, `{"a": null, "b": 2, "c": 3}`...)
			case p == 2 && i == 7:
				m.Time = h.began
			}
			msgs = append(msgs, m)
		}
	}
	h.put(t, msgs)
	h.settle(t, "events")
	return h
}

// settle waits until readers see what was committed: a broker answers a commit before its marks are
// in the partitions.
func (h *history) settle(t *testing.T, topic string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !maps.Equal(h.ListOffsets(t, topic, -1, 0), h.ListOffsets(t, topic, -1, 1)); {
		if time.Now().After(deadline) {
			t.Fatalf("topic %s has an open transaction", topic)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// usable are the rows of whole messages of the topic, less those of no use.
const usable = (historyParts*historyMessages - 2) * historyRows

func jsonRows(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	var b bytes.Buffer
	for range historyRows {
		side := float64(6*rng.IntN(2) - 3)
		fmt.Fprintf(&b, "{\"a\": %v, \"b\": %v, \"c\": %v}\n", side+rng.NormFloat64(), rng.NormFloat64(), 100*rng.NormFloat64())
	}
	return b.Bytes()
}

func (h *history) put(t *testing.T, msgs []sink.Message) {
	t.Helper()
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: h.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: c, TransactionalID: "history"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	for len(msgs) > 0 { // in several transactions, so that their marks stand between the records
		n := min(len(msgs), 7)
		if err := k.Put(context.Background(), msgs[:n], source.Claim{}); err != nil {
			t.Fatal(err)
		}
		msgs = msgs[n:]
	}
}

// replay runs the program as a process of its own and returns its last line.
func (h *history) replay(t *testing.T, args ...string) replay.Result {
	t.Helper()
	r, err := h.try(t, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (h *history) try(t *testing.T, env []string, args ...string) (r replay.Result, err error) {
	t.Helper()
	cmd := exec.Command("lca-stream", append([]string{"replay", "--json", "-c", h.config}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%v: %w: %s", args, err, stderr.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v printed %q: %v", args, stdout.String(), err)
	}
	return r, nil
}

// snapshots reads the snapshot topic with another library's client.
func (h *history) snapshots(t *testing.T) (a *snapshot.Assembler, records int) {
	t.Helper()
	a = &snapshot.Assembler{}
	h.settle(t, "lca-snapshots")
	all := h.ReadCommitted(t, "lca-snapshots")
	for _, r := range all {
		var headers []source.Header
		for _, header := range r.Headers {
			headers = append(headers, source.Header(header))
		}
		if err := a.Add(r.Key, r.Value, headers, r.Timestamp); err != nil {
			t.Fatal(err)
		}
	}
	return a, len(all)
}

func TestReplayOfATopic(t *testing.T) {
	kinds := []kafkatest.Kind{kafkatest.Kafka41, kafkatest.Embedded}
	if testing.Short() {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			h := newHistory(t, kind)
			t.Run("places", h.testPlaces)
			t.Run("same bits", h.testSameBits)
			t.Run("onto the topic", h.testOntoTheTopic)
			t.Run("tune", h.testTune)
			t.Run("a covariance per point", h.testLocal)
			t.Run("interrupt", h.testInterrupt)
			t.Run("learner goes on", h.testLearnerGoesOn)
			t.Run("a fault", h.testFault)
			t.Run("end is fixed", h.testEndIsFixed)
		})
	}
}

// Every form of a place, by the rows that it leaves in the range.
func (h *history) testPlaces(t *testing.T) {
	at := func(seconds int) string {
		return h.began.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339)
	}
	// An offset for each message, and one for the mark of each transaction that touched the partition.
	ends := h.ListOffsets(t, "events", -1, 1)
	for _, c := range []struct {
		name     string
		from, to string
		rows     uint64
		rejected uint64
		invalid  uint64
	}{
		{"all", "earliest", "latest", usable, 1, 2},
		// Messages 10 to 19 of partition 0 and so on: 3i+p ≥ 30.
		{"from a time", at(30), "latest", 30 * historyRows, 0, 0},
		// 3i+p ≥ 31 is i ≥ 11 in partition 0 and i ≥ 10 in the others.
		{"from a time between messages", at(31), "latest", 29 * historyRows, 0, 0},
		{"to a time", "earliest", at(15), 14 * historyRows, 1, 0},
		{"a time zone", h.began.Add(30 * time.Second).In(time.FixedZone("", 3600)).Format(time.RFC3339), "latest", 30 * historyRows, 0, 0},
		{"from before the beginning to after the end", "1990-01-01T00:00:00Z", "2040-01-01T00:00:00Z", usable, 1, 2},
		{"one partition", "0=0", "latest", 19 * historyRows, 1, 0},
		{"two partitions to their ends", "earliest", fmt.Sprintf("0=%d,2=%d", ends[0], ends[2]), 39 * historyRows, 1, 0},
		// A transaction of seven messages puts two or three of them into each partition, then its mark: six
		// offsets are two transactions, and five messages of partition 0, one of them of no use.
		{"some offsets", "0=0,1=0", "0=7,1=4", 7 * historyRows, 1, 0},
		{"beyond the end", "0=0", "0=1000000", 19 * historyRows, 1, 0},
		{"time and offset", at(30), "1=1000000", 10 * historyRows, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := h.replay(t, "--from", c.from, "--to", c.to, "--output", filepath.Join(t.TempDir(), "m.arrows"), "--set", "lca.warmup_rows=20")
			if got.Rows != c.rows || got.Rejected != c.rejected || got.Invalid != c.invalid || got.ModelVersion != c.rows {
				t.Errorf("%d rows in version %d, %d records and %d rows passed over; want %d, %d, %d", got.Rows, got.ModelVersion, got.Rejected, got.Invalid, c.rows, c.rejected, c.invalid)
			}
		})
	}
	for _, c := range []struct{ name, from, to, says string }{
		{"nothing there", "latest", "latest", "no rows to learn from"},
		{"the wrong way round", at(30), at(3), "no rows to learn from"},
		{"no such partition", "7=0", "latest", "no partition 7"},
		{"no such place", "yesterday", "latest", "is none of earliest, latest, a time such as"},
		{"twice", "0=1,0=2", "latest", "named twice"},
		{"disjoint", "0=1", "1=9", "no rows to learn from"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "m.arrows")
			if _, err := h.try(t, nil, "--from", c.from, "--to", c.to, "--output", out); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want …%s…", err, c.says)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("a snapshot was written")
			}
		})
	}
}

// The same range gives the same bytes on any number of threads and on any kernel (invariant 3).
func (h *history) testSameBits(t *testing.T) {
	for _, args := range [][]string{{}, {"--passes", "2"}, {"--every", "3"}, {"--set", "minibatch.rows=50"}, {"--algorithm", "lca-gauss", "--passes", "4", "--sample", "300"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var want []byte
			var first replay.Result
			for i, env := range []string{"", "", "GOMAXPROCS=1", "GODEBUG=cpu.avx512f=off", "GODEBUG=cpu.avx512f=off,cpu.avx2=off"} {
				out := filepath.Join(t.TempDir(), strconv.Itoa(i))
				got, err := h.try(t, []string{env}, append(args, "--output", out)...)
				if err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(out)
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					want, first = data, got
				}
				if !bytes.Equal(data, want) || got.Fingerprint != first.Fingerprint || len(got.Fingerprint) != 64 {
					t.Errorf("with %q the snapshot has other bytes: fingerprint %s, want %s", env, got.Fingerprint, first.Fingerprint)
				}
			}
			if first.Rows != usable {
				t.Errorf("%d rows, want %d", first.Rows, usable)
			}
		})
	}
}

// One transaction, a version that grows, and nothing at all when the model is there already.
func (h *history) testOntoTheTopic(t *testing.T) {
	first := h.replay(t, "--model-id", "january")
	a, records := h.snapshots(t)
	s, ok := a.Newest("january")
	if !ok {
		t.Fatalf("the topic has versions %v of the model", a.List("january"))
	}
	if s.Version != usable || first.ModelVersion != usable {
		t.Fatalf("version %d on the topic and %d printed, want %d", s.Version, first.ModelVersion, usable)
	}
	if got, err := snapshot.Fingerprint(s); err != nil || got != first.Fingerprint {
		t.Errorf("the topic has %s (%v), printed was %s", got, err, first.Fingerprint)
	}
	for p, next := range h.ListOffsets(t, "events", -1, 1) {
		if s.Offsets[source.Partition{Topic: "events", ID: p}] != next {
			t.Errorf("the snapshot ends at %v, the range at %d of partition %d", s.Offsets, next, p)
		}
	}
	if again := h.replay(t, "--model-id", "january"); again.Fingerprint != first.Fingerprint || again.ModelVersion != first.ModelVersion {
		t.Errorf("the same range again is version %d, %s; want %d, %s", again.ModelVersion, again.Fingerprint, first.ModelVersion, first.Fingerprint)
	}
	if _, now := h.snapshots(t); now != records {
		t.Errorf("%d records on the topic, want the %d of the first time", now, records)
	}
	other := h.replay(t, "--model-id", "january", "--from", "0=0")
	a, _ = h.snapshots(t)
	s, _ = a.Newest("january")
	if want := first.ModelVersion + other.Rows; other.ModelVersion != want || s.Version != want || s.Parent != first.ModelVersion || s.Number != 1 {
		t.Errorf("another range is version %d after %d, number %d; want %d after %d, number 1", s.Version, s.Parent, s.Number, want, first.ModelVersion)
	}
}

// An interrupt leaves no trace, and does not look like success.
func (h *history) testInterrupt(t *testing.T) {
	_, before := h.snapshots(t)
	out := filepath.Join(t.TempDir(), "m.arrows")
	for _, where := range [][]string{{"--model-id", "never"}, {"--output", out}} {
		cmd := exec.Command("lca-stream", append([]string{"replay", "-c", h.config, "--passes", "1000000", "--json"}, where...)...)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stdout bytes.Buffer
		cmd.Stdout = &stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := untilLine(t, stderr, `"rows_per_second"`)
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		said += untilLine(t, stderr, "interrupted, and nothing was written")
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != app.ExitFailed || stdout.Len() > 0 {
			t.Errorf("ended with %v and printed %q: %s", err, stdout.String(), said)
		}
	}
	if _, after := h.snapshots(t); after != before {
		t.Errorf("%d records on the snapshot topic, before the interrupt %d", after, before)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// A live learner goes on from a replay: from a file, from a version, or from what is on the topic.
func (h *history) testLearnerGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.arrows")
	h.replay(t, "--output", file, "--from", "2=0")
	for _, c := range []struct {
		id   string
		put  bool // a replay onto the topic comes first
		args func(version uint64) []string
	}{
		{"from-file", false, func(uint64) []string { return []string{"--from-snapshot", file} }},
		{"from-file-behind", true, func(uint64) []string { return []string{"--from-snapshot", file} }},
		{"from-version", true, func(v uint64) []string { return []string{"--from-snapshot", strconv.FormatUint(v, 10)} }},
		{"from-topic", true, func(uint64) []string { return nil }},
	} {
		t.Run(c.id, func(t *testing.T) {
			base := uint64(historyMessages * historyRows)
			if c.put {
				base = h.replay(t, "--model-id", c.id).ModelVersion
			}
			cmd := exec.Command("lca-stream", append([]string{"learn", "-c", h.config, "--set", "snapshot.model_id=" + c.id, "--set", "snapshot.every_rows=500"}, c.args(base)...)...)
			var log bytes.Buffer
			cmd.Stderr = &log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var got []snapshot.Entry
			for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				a, _ := h.snapshots(t)
				if got = a.List(c.id); len(got) > 0 && got[0].Version >= base+1000 {
					break
				}
			}
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, log.String())
			}
			if len(got) == 0 || got[0].Version < base+1000 {
				t.Fatalf("versions %v, want one from %d on\n%s", got, base+1000, log.String())
			}
			for _, e := range got {
				if e.Version < base || e.Fault != nil {
					t.Errorf("version %d is before %d, or %v", e.Version, base, e.Fault)
				}
			}
			if !strings.Contains(log.String(), "going on from a snapshot") {
				t.Errorf("the log does not say where it went on from:\n%s", log.String())
			}
		})
	}
}

// A range ends where it ended when the replay began, however fast the topic grows.
func (h *history) testEndIsFixed(t *testing.T) {
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: h.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: c, TransactionalID: "history"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := uint64(1000); ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := k.Put(context.Background(), []sink.Message{{Topic: "events", Partition: int32(i % 3), Value: jsonRows(i), Time: time.Now()}}, source.Claim{}); err != nil {
				stopped <- err
				return
			}
		}
	}()
	got := h.replay(t, "--output", filepath.Join(t.TempDir(), "m.arrows"), "--passes", "3")
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	h.settle(t, "events")
	var all int
	for range h.ReadCommitted(t, "events") {
		all++
	}
	if got.Rows < usable || got.Rows%historyRows != 0 || got.Rows >= uint64(all)*historyRows {
		t.Errorf("%d rows learnt of %d records: the end of the range moved", got.Rows, all)
	}
	if got.ModelVersion != 3*got.Rows {
		t.Errorf("three passes over %d rows learnt %d", got.Rows, got.ModelVersion)
	}
}
