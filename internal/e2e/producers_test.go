//go:build unix

package e2e_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// What librdkafka and Java's producer send is read, whatever they compress it with: small messages in large batches, and large ones that
// repeat themselves over any distance. Several partitions leave each reader little room at first.
func TestProducersOfOthers(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Older(kafkatest.Kafka39))
	codecs := []string{"snappy", "zstd", "none", "gzip", "lz4"}
	if testing.Short() {
		codecs = codecs[:2]
	}
	for _, codec := range codecs {
		t.Run(codec, func(t *testing.T) {
			s := newStream(t, b, codec, settings{partitions: 12, features: "[x, y]", more: "memory: {limit: 256MiB}\n"})
			b.AlterTopic(t, s.topic("in"), map[string]string{"max.message.bytes": "8000000"})
			b.AlterTopic(t, s.topic("out"), map[string]string{"max.message.bytes": "8000000"})
			file, want := filepath.Join(t.TempDir(), "lines"), map[string]int{}
			lines := repetitive(want)
			if err := os.WriteFile(file, lines, 0o644); err != nil {
				t.Fatal(err)
			}
			testtools.RunPython(t, "testdata/producers.py", b.Addrs()[0], s.topic("in"), codec, file)
			javaProducer(t, b.Addrs()[0], s.topic("in"), codec, file)
			run := s.program("run")
			s.await(s.name, int64(2*len(want)), run)
			run.stop()

			for _, r := range b.ReadCommitted(t, s.topic("out")) {
				var got struct{ Text string }
				if err := json.Unmarshal(r.Value, &got); err != nil {
					t.Fatal(err)
				}
				want[got.Text]++
			}
			for text, times := range want {
				if times != 2 {
					t.Errorf("the message with %d bytes that begin with %.20s came %d times, want one from each producer", len(text), text, times)
				}
			}
			for _, r := range b.ReadCommitted(t, s.topic("dead")) {
				t.Errorf("dead letter: %s", recordHeader(r, "lca-error"))
			}
		})
	}
}

// repetitive returns messages, one a line, each with another text, and notes the texts.
func repetitive(texts map[string]int) []byte {
	r := rand.New(rand.NewPCG(7, 8))
	var lines []byte
	add := func(text string) {
		texts[text] = 0
		lines = fmt.Appendf(lines, `{"x":%.4f,"y":%.4f,"text":%q}`+"\n", r.NormFloat64(), r.NormFloat64(), text)
	}
	digits := func(kib int) string {
		b := make([]byte, kib<<9)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return hex.EncodeToString(b)
	}
	for i := range 500 {
		add(fmt.Sprintf("message %d of many that are alike: %s", i, strings.Repeat("alike ", 20)))
	}
	for _, kib := range []int{33, 66, 68, 80, 130, 160, 258, 300, 520, 700} {
		half := digits(kib)
		add(half)
		add(half + half)
		add(fmt.Sprint(kib) + strings.Repeat(" ", kib<<11))
		add(half + digits(70) + half)
	}
	return lines
}

// javaProducer sends the lines of a file with Kafka's own console producer.
func javaProducer(t *testing.T, broker, topic, codec, file string) {
	t.Helper()
	lines, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lines.Close() }()
	cmd := exec.Command("java", "-Xmx512m", "-cp", filepath.Join(kafkatest.Jars(t, "kafka-3.9.1"), "*"), "kafka.tools.ConsoleProducer",
		"--bootstrap-server", broker, "--topic", topic, "--compression-codec", codec, "--producer-property", "max.request.size=8000000",
		"--producer-property", "batch.size=1000000", "--max-partition-memory-bytes", "1000000")
	cmd.Stdin = lines
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "ERROR") {
		t.Fatalf("%v:\n%s", err, out)
	}
}
