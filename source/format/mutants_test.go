//go:build unix

package format

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
)

// BenchmarkMutants decodes messages of each format that have been changed at random, without a fuzzer in the way, for many
// executions. It reports how many are accepted, and the most memory that the process has had:
//
//	go test ./source/format -run - -bench Mutants/protobuf -benchtime 10000000x
func BenchmarkMutants(b *testing.B) {
	arrows, arrow := seeds(b), newDecoder(b, Config{})
	avros, avroSeeds := hostileAvro(b)
	proto := &Schema{ID: 1, Type: SchemaProtobuf, Text: protoAll}
	protobufs := hostileProtobuf(b, proto)
	r := protoRegistry{1: proto, 2: {ID: 2, Type: SchemaJSON, Text: jsonSchemaText}}
	objects := []string{envelope, `[{"a":[1,2],"b":"x"},{"a":null}]`, "{\"a\":true}\n{\"a\":false}", `{"a":{"b":[1,"\u0041"]},"c":-1.5e-7}`, `{"price":"1.50","cost":null,"after":{"price":"12"}}`}
	var plain, named [][]byte
	for _, text := range objects {
		plain, named = append(plain, []byte(text)), append(named, []byte("\x00\x00\x00\x00\x02"+text))
	}
	decoders := func(format Format, columns ...string) []*Decoder {
		return []*Decoder{newDecoder(b, Config{Format: format, Registry: r}), newDecoder(b, Config{Format: format, Registry: r, Columns: columns, Only: true})}
	}
	for _, c := range []struct {
		format   Format
		decoders []*Decoder
		mutant   func(rng *rand.Rand) []byte
	}{
		{Arrow, []*Decoder{arrow}, func(rng *rand.Rand) []byte { return mutant(arrows, rng) }},
		{JSON, decoders(JSON, "a.b", "price", "payload.after.temp"), func(rng *rand.Rand) []byte { return edited(plain, 0, jsonBytes, rng) }},
		{Avro, avros, func(rng *rand.Rand) []byte { return edited(avroSeeds, prefixBytes, "", rng) }},
		{Protobuf, decoders(Protobuf, "after.temp", "whole", "inner.bar"), func(rng *rand.Rand) []byte { return edited(protobufs, prefixBytes, "", rng) }},
		{JSONSchema, decoders(JSONSchema, "a.b", "price", "after.price"), func(rng *rand.Rand) []byte { return edited(named, prefixBytes, jsonBytes, rng) }},
	} {
		b.Run(string(c.format), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(uint64(b.N), 3))
			accepted := 0
			for b.Loop() {
				if decodeHostile(b, c.decoders[rng.IntN(len(c.decoders))], c.mutant(rng)) == nil {
					accepted++
				}
			}
			b.ReportMetric(100*float64(accepted)/float64(b.N), "%accepted")
			b.ReportMetric(peakMiB(b), "MiB-peak")
		})
	}
}

// jsonBytes are what JSON is made of.
const jsonBytes = ` {}[]",:0123456789.eE+-\\untrfalse`

// edited is one of the messages with bytes changed, taken away or put in behind its head; bytes of the alphabet, or any
// where it is empty.
func edited(all [][]byte, head int, alphabet string, rng *rand.Rand) []byte {
	one := func() byte {
		if alphabet == "" {
			return byte(rng.IntN(256))
		}
		return alphabet[rng.IntN(len(alphabet))]
	}
	in := bytes.Clone(all[rng.IntN(len(all))])
	for range 1 + rng.IntN(4) {
		if len(in) <= head {
			break
		}
		at := head + rng.IntN(len(in)-head)
		switch rng.IntN(3) {
		case 0:
			in[at] = one()
		case 1:
			in = append(in[:at], in[min(at+1+rng.IntN(4), len(in)):]...)
		default:
			in = append(in[:at:at], append([]byte{one(), one(), one()}, in[at:]...)...)
		}
	}
	return in
}

// peakMiB is the most memory that the process has had so far.
func peakMiB(b *testing.B) float64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	unit := 1024. // of Maxrss, in bytes
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return float64(usage.Maxrss) * unit / (1 << 20)
}
