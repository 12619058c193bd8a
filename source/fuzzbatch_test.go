package source

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// FuzzFetchedBatches mutates whole responses of a broker, batches and all, whose checksums are made right again:
// whatever comes is read, set aside or an error, without a panic and within the bounds, and it always goes on.
func FuzzFetchedBatches(f *testing.F) {
	row := kafkatest.ForgedRecords(3, []byte(`{"x":1}`))
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		for _, bits := range []uint16{0, 1 << 4, 1<<4 | 1<<5} {
			batch := kafkatest.Forged{Records: row, Count: 3, Codec: codec, Bits: bits}.Bytes(f)
			f.Add(responseOf(append(batch, batch...), 1), uint16(7))
		}
	}
	f.Add(responseOf(kafkatest.Forged{Records: kafkatest.ForgedRecord(0, nil, 5000), Count: 1}.Bytes(f), 0), uint16(0))
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	memory := NewMemory(1, 1)
	const messageBytes = 4 << 10
	f.Fuzz(func(t *testing.T, in []byte, next uint16) {
		res := &fetchResponse{block: memory.blocks().take(len(in))}
		copy(res.block.bytes, in)
		w := wire{b: res.block.bytes}
		w.fetchResponse(res, &fetchRequest{partition: Partition{Topic: "t"}}, 11)
		if w.failed || res.code != 0 || res.throttled > 0 {
			return
		}
		reseal(res.records)
		fetcher := NewFetcher(FetcherConfig{Cluster: c, Partition: Partition{Topic: "t"}, Offset: int64(next), MaxMessageBytes: messageBytes, MaxBatchBytes: 4 * messageBytes, SetAside: true})
		fetcher.share(memory, false)
		fetcher.doubts = mostDoubts
		got, err := fetcher.take(res, fetcher.part(), false)
		if err != nil {
			if large := (*largeError)(nil); errors.As(err, &large) && large.need > int64(5*fetcher.config.MaxBatchBytes) {
				t.Errorf("waits for %d bytes", large.need)
			}
			return
		}
		checkFetched(t, &got, int64(next))
		got.block.drop()
	})
}

// checkFetched: offsets ascend, none is before the position or behind the next one.
func checkFetched(t *testing.T, got *Fetched, from int64) {
	t.Helper()
	if got.Next < from {
		t.Fatalf("goes back from %d to %d", from, got.Next)
	}
	last := from - 1
	p := portion{records: got.Records, rejected: got.Rejected, after: got.Next}
	for !p.empty() {
		r, rejected := p.peek()
		first, end := int64(0), int64(0)
		if r != nil {
			first, end = r.Offset, r.Offset
		} else {
			first, end = rejected.Offset, rejected.Last
		}
		if first <= last || end < first || end >= got.Next {
			t.Fatalf("offsets %d to %d after %d, next %d", first, end, last, got.Next)
		}
		last = end
		p.pop()
	}
}

// reseal makes the checksums of all batches right.
func reseal(records []byte) {
	for len(records) > 61 {
		size := 12 + int64(int32(binary.BigEndian.Uint32(records[8:])))
		if size < 61 || size > int64(len(records)) {
			return
		}
		binary.BigEndian.PutUint32(records[17:], crc32.Checksum(records[21:size], crc32.MakeTable(crc32.Castagnoli)))
		records = records[size:]
	}
}

// responseOf is a Fetch response, version 11, of topic "t" with these records and that number of aborted transactions.
func responseOf(records []byte, aborted int) []byte {
	be := binary.BigEndian
	b := be.AppendUint32(nil, 0)                  // throttle
	b = be.AppendUint32(be.AppendUint16(b, 0), 0) // code, session
	b = be.AppendUint32(b, 1)
	b = append(be.AppendUint16(b, 1), 't')
	b = be.AppendUint32(be.AppendUint32(b, 1), 0) // partition 0
	b = be.AppendUint16(b, 0)
	for _, offset := range []uint64{1000, 1000, 0} {
		b = be.AppendUint64(b, offset)
	}
	b = be.AppendUint32(b, uint32(aborted))
	for range aborted {
		b = be.AppendUint64(be.AppendUint64(b, ^uint64(0)), 0)
	}
	b = be.AppendUint32(b, 0) // preferred replica
	return append(be.AppendUint32(b, uint32(len(records))), records...)
}

// BenchmarkBatches is FuzzFetchedBatches without a fuzzer in the way, for many executions:
//
//	go test ./source -run - -bench Batches -benchtime 10000000x
func BenchmarkBatches(b *testing.B) {
	row := kafkatest.ForgedRecords(3, []byte(`{"x":1}`))
	var all [][]byte
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		all = append(all, kafkatest.Forged{Records: row, Count: 3, Codec: codec}.Bytes(b))
	}
	rng := rand.New(rand.NewPCG(uint64(b.N), 3))
	d := recordbatch.NewDecoder(16<<10, nil)
	accepted := 0
	for i := 0; b.Loop(); i++ {
		in := append([]byte(nil), all[i%len(all)]...)
		for range rng.IntN(4) + 1 {
			at := 21 + rng.IntN(len(in)-21)
			in[at] = []byte{0, 1, 1<<7 - 1, 1 << 7, 1<<8 - 1, in[at] + 1, in[at] - 1, byte(rng.Uint32())}[rng.IntN(8)]
		}
		reseal(in)
		d.Reset(in)
		var batch recordbatch.Batch
		if d.Next(&batch) != nil {
			continue
		}
		if recs, err := d.Records(nil, &batch); err == nil {
			accepted++
			if len(recs) > 16<<10/recordbatch.RecordBytes || d.Held() > 48<<10 {
				b.Fatalf("%d records, %d bytes held", len(recs), d.Held())
			}
		}
	}
	b.ReportMetric(100*float64(accepted)/float64(b.N), "%accepted")
}
