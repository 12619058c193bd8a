package ipcguard

// Limits bound what one input may ask for. They hold for a whole stream (a Kafka value, a file),
// not for each of its messages, except where said otherwise.
type Limits struct {
	Metadata int64 // bytes of one message's flatbuffer
	Strings  int64 // bytes of names and key-value metadata that the schema refers to, shared ones counted each time
	Fields   int   // fields of the schema, children counted
	Depth    int   // nesting of types
	Messages int   // messages of one stream
	Rows     int64 // rows of all batches; also of any array that needs no bytes for its rows
	Decoded  int64 // bytes of all buffers once decompressed; aliased bytes are counted each time
	Viewed   int64 // bytes that all string and binary views spell, shared ones counted each time
}

// MessageLimits are the limits of a message on a topic: 2^20 rows, 8192 fields nested 32 deep,
// 64 MiB once decompressed.
func MessageLimits() Limits {
	return Limits{
		Metadata: 16 << 20,
		Strings:  8 << 20,
		Fields:   8192,
		Depth:    32,
		Messages: 4096,
		Rows:     1 << 20,
		Decoded:  64 << 20,
		Viewed:   256 << 20,
	}
}

// BatchLimits are the limits of one batch of a file on the user's own disk: no bound on rows but
// the 2^31−1 of the format, and 2 GiB of buffers.
func BatchLimits() Limits {
	l := MessageLimits()
	l.Strings, l.Messages, l.Rows, l.Decoded, l.Viewed = 64<<20, 1<<24, 1<<31-1, 2<<30, 8<<30
	return l
}
