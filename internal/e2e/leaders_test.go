//go:build unix

package e2e_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// One broker of three is away, and with it a partition of the source and one of the output: the others answer, and go
// on. The process is not ready and says which partition it is, the lag of every other partition stays true, and doctor
// finds it at once. When the broker is back, all of it is over by itself.
func TestPartitionsWithoutLeader(t *testing.T) {
	t.Parallel()
	const away = 2
	b := kafkatest.StartN(t, kafkatest.Kafka41, 3)
	s := newStream(t, b, "lone", settings{partitions: 3, features: sensorColumns})
	b.PlaceTopic(t, "lone-source", 0, away, 1)
	b.PlaceTopic(t, "lone-target", 0, 1, away)
	here := []string{"--set", "source.topic=lone-source", "--set", "transform.topic=lone-target"}
	wait, stop := b.Load(t, kafkatest.Load{Topic: "lone-source", Data: "sensors", Rows: 1 << 30, PerMessage: perMessage, Rate: 1000})
	address := testtools.Address(t)
	p := s.program(append([]string{"run", "--set", "http.listen=" + address}, here...)...)
	s.await(s.name, 50, p)
	untilReady(t, address, true, "")
	b.Kill(away)
	untilReady(t, address, false, "partition lone-source/1 (source.topic) has had no leader for ")
	lag := regexp.MustCompile(`lca_source_lag_records\{partition="2"\} (\d+)`)
	for deadline, at := time.Now().Add(time.Minute), 0; at < 100; { // about 8 come per second
		if m := lag.FindStringSubmatch(text(t, address, "/metrics")); m != nil {
			at, _ = strconv.Atoi(m[1])
		}
		if p.alive(); time.Now().After(deadline) {
			t.Fatalf("partition 2 cannot be written, and its lag is %d", at)
		}
		time.Sleep(time.Second)
	}
	began := time.Now()
	out, err := exec.Command(s.path(), append([]string{"doctor", "-c", s.file}, here...)...).CombinedOutput()
	if took := time.Since(began); exitCode(err) != 2 || took > 20*time.Second {
		t.Errorf("doctor ended with exit code %d after %v", exitCode(err), took)
	}
	for _, says := range []string{"lone-source (source.topic): has no leader for partition 1:", "lone-target (transform.topic): has no leader for partition 2:", "--unavailable-partitions"} {
		if !strings.Contains(string(out), says) {
			t.Errorf("doctor does not say %q:\n%s", says, out)
		}
	}
	b.Restart(away)
	untilReady(t, address, true, "")
	stop()
	wait()
	p.stop()
	log, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{ // brokers may learn of the two one after the other
		`"msg":"partitions have no leader: they are neither read nor written","number":[12],"partitions":"lone-(source/1 \(source.topic\)|target/2 \(transform.topic\))`,
		`"msg":"all partitions have a leader again"`,
	} {
		if !regexp.MustCompile(says).Match(log) {
			t.Errorf("the log does not say %s", says)
		}
	}
	plain(t, string(log))
}
