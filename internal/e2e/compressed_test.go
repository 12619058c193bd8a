//go:build unix

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// A message that its producer has compressed may be many times as large as the topics that it goes to take.
// It is whitened where the output fits when it is compressed too, and set aside where it does not, cut if even the
// dead letter does not fit. In no case does the process stop.
func TestCompressedInput(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "packed", settings{partitions: 1, features: "[a, b, c]"})
	rng := rand.New(rand.NewPCG(3, 4))
	row := func() string {
		return fmt.Sprintf(`{"a":%.3f,"b":%.3f,"c":%.3f}`+"\n", rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64())
	}
	var values [][]byte
	for range 3000 {
		values = append(values, []byte(row()))
	}
	alike := bytes.Repeat([]byte(`{"a":1.25,"b":2.5,"c":3.75}`+"\n"), 45_000)
	var noise bytes.Buffer
	for range 60_000 {
		noise.WriteString(row())
	}
	useless := bytes.Repeat([]byte("not a row at all, "), 200_000)
	first := len(values)
	values = append(values, alike, noise.Bytes(), useless, []byte(row()))
	s.produceZstd(values, 1)
	b.AlterTopic(t, s.topic("out"), map[string]string{"max.message.bytes": "600000"})
	b.AlterTopic(t, s.topic("dead"), map[string]string{"max.message.bytes": "300000"})
	run := s.program("run")
	s.await(s.name, int64(len(values)), run)
	run.stop()

	outputs := map[int]bool{}
	for _, r := range b.ReadCommitted(t, s.topic("out")) {
		outputs[sourceOffset(t, r.Headers)] = true
	}
	if len(outputs) != len(values)-2 || !outputs[first] || outputs[first+1] || outputs[first+2] {
		t.Errorf("%d outputs of %d messages; of the large ones: %v, %v, %v", len(outputs), len(values), outputs[first], outputs[first+1], outputs[first+2])
	}
	letters := map[int]map[string]string{}
	for _, r := range b.ReadCommitted(t, s.topic("dead")) {
		h := map[string]string{"value": strconv.Itoa(len(r.Value))}
		for _, one := range r.Headers {
			h[one.Key] = string(one.Value)
		}
		letters[sourceOffset(t, r.Headers)] = h
	}
	crc := fmt.Sprintf("%08x", crc32.Checksum(noise.Bytes(), crc32.MakeTable(crc32.Castagnoli)))
	cut, whole := letters[first+1], letters[first+2]
	if cut["lca-error-code"] != "output_too_large" || cut["lca-cut"] != "value" || cut["lca-original-size"] != strconv.Itoa(noise.Len()) || cut["lca-original-crc32c"] != crc {
		t.Errorf("the dead letter of what compresses too little: %v", cut)
	}
	if whole["lca-error-code"] != format.CodeFormatUnknown || whole["value"] != strconv.Itoa(len(useless)) || whole["lca-cut"] != "" {
		t.Errorf("the dead letter of what is of no use: %v", whole)
	}
}

// produceZstd is produce of batches that are compressed, to partitions in turn.
func (s *stream) produceZstd(values [][]byte, partitions int) {
	s.t.Helper()
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: s.Addrs()})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: c, TransactionalID: s.name + "-packer", Compress: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	var msgs []sink.Message
	for i, v := range values {
		msgs = append(msgs, sink.Message{Topic: s.topic("in"), Partition: int32(i % partitions), Value: v})
	}
	if err := k.Put(context.Background(), msgs, source.Claim{}); err != nil {
		s.t.Fatal(err)
	}
}
