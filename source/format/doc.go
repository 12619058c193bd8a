// Package format turns bytes from untrusted producers into Arrow records.
//
// Begin with [NewDecoder] for the values of messages: its Decode makes one record of a value, and tells the format
// by the first bytes unless [Config] names it. [OpenFile] is the same for files, by their extension.
//
//	messages   Arrow IPC streams; JSON: an object, an array of objects, or an object per line; Avro, Protobuf and
//	           JSON by the schema that a value names in a schema registry (Registry), Avro by one that is given too
//	           (Config.AvroSchema)
//	files      .arrow and .feather (Arrow IPC files), .arrows (streams), .parquet, .csv, .tsv, and .csv.gz
//
// Whatever the bytes of a message are, there is no panic, and at most 64 MiB are taken in addition to them. Every length
// and offset is checked before anything is allocated or a library reads it; for Arrow, of messages and files, this is
// package ipcguard. Parquet files are read by a library: its panics are caught, its memory is not bounded. What cannot be
// read is an [Error] with a code and what to do.
//
// # Adding a format
//
// A format is a file with a spec (name, how it is recognized, its codes, what decodes it) and a line in the
// table of format.go. Names, error texts, codes and metric labels follow from the table. A decoder is given the
// context of the reader, so that it may wait for what it needs from elsewhere, such as a schema; how to get
// that is passed in Config, because this package knows no network.
package format
