package recordbatch

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("value=%d", size), func(b *testing.B) {
			recs := someRecords(1_000_000/size, size)
			dst := make([]byte, 0, Size(recs))
			b.SetBytes(int64(cap(dst)))
			b.ReportAllocs()
			for b.Loop() {
				dst = Append(dst[:0], recs, NoProducer())
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		plain := Append(nil, someRecords(1_000_000/size, size), NoProducer())
		for _, c := range []struct {
			codec    codec
			compress kgo.CompressionCodec
		}{{codecNone, kgo.NoCompression()}, {codecGzip, kgo.GzipCompression()}, {codecSnappy, kgo.SnappyCompression()}, {codecLZ4, kgo.Lz4Compression()}, {codecZstd, kgo.ZstdCompression()}} {
			b.Run(fmt.Sprintf("value=%d/%s", size, c.codec), func(b *testing.B) {
				raw := plain
				if c.codec != codecNone {
					raw = seal(append(append([]byte(nil), plain[:headerSize]...), kgoCompressor(b, c.compress)(plain[headerSize:])...), uint16(c.codec))
				}
				d := NewDecoder(4<<20, nil)
				var recs []Record
				b.SetBytes(int64(len(plain)))
				b.ReportAllocs()
				for b.Loop() {
					var batch Batch
					d.Reset(raw)
					err := d.Next(&batch)
					if err == nil {
						recs, err = d.Records(recs[:0], &batch)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
