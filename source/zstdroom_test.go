package source

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// streamer compresses as Java's producer and librdkafka do: without the size of the content, and with the window of the level.
type streamer struct{ t *testing.T }

func (s streamer) Compress(dst *bytes.Buffer, src []byte, _ ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	w, err := zstd.NewWriter(dst, zstd.WithWindowSize(8<<20), zstd.WithSingleSegment(false))
	if err == nil {
		_, err = w.Write(src)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		s.t.Error(err)
	}
	return dst.Bytes(), kgo.CodecZstd
}

// Batches of streamed zstd are read whatever room their reader has at first, and whatever in them shows that they need more.
func TestStreamedZstdOfAnySize(t *testing.T) {
	const partitions = 12
	r := rand.New(rand.NewPCG(1, 2))
	digits := func(kib int) string {
		b := make([]byte, kib<<9)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return hex.EncodeToString(b)
	}
	var texts []string
	for _, kib := range []int{1, 33, 60, 66, 80, 130, 160, 258, 300, 520, 700, 1030, 1500} {
		half := digits(kib)
		texts = append(texts, half, half+half, strings.Repeat("x", len(half)), half+digits(70)+half)
	}
	rig := readers{t: t, broker: kafkatest.Start(t, kafkatest.Embedded), topic: "streamed"}
	rig.broker.CreateTopic(t, rig.topic, partitions, map[string]string{"max.message.bytes": "20971520"})
	client, err := kgo.NewClient(kgo.SeedBrokers(rig.broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.WithCompressor(streamer{t}), kgo.ProducerBatchMaxBytes(20<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i, text := range texts {
		if err := client.ProduceSync(t.Context(), &kgo.Record{
			Topic: rig.topic, Partition: int32(i % partitions), Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, `{"x":1,"text":%q}`, text),
		}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int64{1, 128 << 20, 1 << 30} {
		rig.memory = NewMemory(limit, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		k := rig.open(64<<10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
		err := rig.read(ctx, k, len(texts), func(b Batch) {
			for _, m := range b.Messages {
				var i int
				if _, err := fmt.Sscan(string(m.Key), &i); err != nil || string(m.Value) != fmt.Sprintf(`{"x":1,"text":%q}`, texts[i]) {
					t.Errorf("message %s came otherwise", m.Key)
				}
			}
		})
		if err != nil {
			t.Errorf("with a limit of %d bytes: %v", limit, err)
		}
		cancel()
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		rig.memory.idle(t)
	}
}

// Small messages are taken in batches of any size, however small the largest message may be.
func TestSmallMessagesInLargeBatches(t *testing.T) {
	const messages = 9000
	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "small", 1, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.DefaultProduceTopic("small"), kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	records := make([]*kgo.Record, messages)
	for i := range records {
		records[i] = &kgo.Record{Value: fmt.Appendf(nil, `{"x":%d,"text":%q}`, i, strings.Repeat("text ", 30))}
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const least = 1 << 10
	k, err := OpenKafka(t.Context(), KafkaConfig{
		Cluster: c, Start: Offsets{{Topic: "small"}: 0}, End: Offsets{{Topic: "small"}: messages},
		Decoder: newDecoder(t, format.Config{MaxBytes: least}), MaxMessageBytes: least,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	if err := (readers{t: t}).read(t.Context(), k, messages, func(Batch) {}); err != nil {
		t.Error(err)
	}
}
