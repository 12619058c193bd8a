//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A machine of which no row comes for model.idle loses its model, by the time of the records and not by the clock; when it comes back, it
// has a new one, with later versions. The learner is killed in between.
func TestModelIsRetired(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	const rows = 300
	s := newStream(t, b, "idle", settings{
		partitions: 1, features: "[a, b]",
		more: "model: {by: key, idle: 1h}\nminibatch: {rows: 50}\n",
	})
	began := time.Now().Add(-10 * time.Hour)
	learn, transform := s.program("learn", "--set", "lca.neighbours=60"), s.program("transform")
	sent := int64(0)
	produce := func(key string, n int, at time.Time) {
		s.produceAt(key, n, at, uint64(sent))
		sent += int64(n)
	}
	produce("gone", rows, began)
	produce("alive", rows, began)
	s.await("idle.learn", sent, learn)
	s.until(func() bool { return s.records("snap")["default/0/gone"] > 0 })
	transform.stop() // the next one reads the snapshots to their end before it whitens
	transform.start()
	produce("gone", 10, began)
	s.await("idle", sent, transform)
	produce("alive", 10, began.Add(50*time.Minute))
	produce("alive", 10, began.Add(70*time.Minute))
	s.until(func() bool { return s.records("snap")["default/0/gone"] == 0 })
	learn.Kill()
	transform.stop()
	produce("gone", 10, began.Add(71*time.Minute))
	transform.start()
	s.await("idle", sent, transform)
	learn.start()
	produce("gone", rows, began.Add(72*time.Minute))
	s.await("idle.learn", sent, learn)
	s.until(func() bool { return s.records("snap")["default/0/gone"] > 0 })
	transform.stop()
	transform.start()
	produce("gone", 10, began.Add(73*time.Minute))
	s.await("idle", sent, transform)
	learn.stop()
	transform.stop()
	s.checkRetired("default/0/gone", rows)
	if n := s.records("snap")["default/0/alive"]; n == 0 {
		t.Error("the model that is alive has no snapshot")
	}
}

// until waits for something to become true.
func (s *stream) until(holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal("it has not come about in 2 minutes")
		}
	}
}

// produceAt writes messages of one row each, with a timestamp.
func (s *stream) produceAt(key string, n int, at time.Time, seed uint64) {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DefaultProduceTopic(s.topic("in")))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	random := rand.New(rand.NewPCG(seed, 11))
	var records []*kgo.Record
	for range n {
		value := fmt.Sprintf(`{"a": %g, "b": %g}`, random.NormFloat64()+5*float64(random.IntN(2)), random.NormFloat64())
		records = append(records, &kgo.Record{Key: []byte(key), Value: []byte(value), Timestamp: at})
	}
	if err := cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// records counts what a compacted topic holds of each model.
func (s *stream) records(suffix string) map[string]int {
	s.t.Helper()
	values, n := map[string]bool{}, map[string]int{}
	for _, r := range s.ReadCommitted(s.t, s.topic(suffix)) {
		values[string(r.Key)] = r.Value != nil
	}
	for key, held := range values {
		parts := strings.Split(key, "/")
		if held && len(parts) > 3 {
			n[strings.Join(parts[:3], "/")]++
		}
	}
	return n
}

// checkRetired checks that a model was retired once and came back: versions of its output only grow, with rows without a model in between.
func (s *stream) checkRetired(id string, rows uint64) {
	s.t.Helper()
	retired, last := 0, uint64(0)
	for _, r := range s.ReadCommitted(s.t, s.topic("check")) {
		if !strings.HasPrefix(string(r.Key), id+"/") || r.Value == nil {
			continue
		}
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		version, _ := strconv.ParseUint(headers["lca-model-version"], 10, 64)
		if version < last {
			s.t.Errorf("version %d in the checkpoint after %d", version, last)
		}
		if last = version; headers["lca-retired"] != "" {
			retired++
			if version != rows {
				s.t.Errorf("the model was retired with version %d, want %d", version, rows)
			}
		}
	}
	if retired != 1 || last != 2*rows {
		s.t.Errorf("the model was retired %d times, and its last version is %d, want %d", retired, last, 2*rows)
	}
	var versions []uint64
	newest := uint64(0)
	for _, r := range s.ReadCommitted(s.t, s.topic("out")) {
		if string(r.Key) != "gone" {
			continue
		}
		for _, h := range r.Headers {
			if h.Key != "lca-model-version" {
				continue
			}
			v, _ := strconv.ParseUint(string(h.Value), 10, 64)
			if v != 0 && v < newest {
				s.t.Errorf("version %d after %d", v, newest)
			}
			newest = max(newest, v)
			if n := len(versions); n == 0 && v > 0 || n > 0 && (versions[n-1] == 0) != (v == 0) {
				versions = append(versions, v)
			}
		}
	}
	if len(versions) != 3 || versions[1] != 0 || versions[2] <= rows {
		s.t.Errorf("rows are to have a model, none, and a later one; they have %v", versions)
	}
}
