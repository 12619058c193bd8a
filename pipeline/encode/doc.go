// Package encode turns rows and what they have become into the values of output messages: Arrow streams, JSON, and Avro or JSON with a
// schema in a registry.
//
// Begin with [NewOutput] and [Output.Append], which need no more than a record and its [Whitened] rows. [Format] says what is written,
// [OutputConfig] which columns of ours are added. Where the layout of a message is known, [Output.Pieces] writes it without a copy.
//
// What whitening adds to one message is bounded ([MostWhitened]); an input that has a column of one of our names is an [OutputError]. An
// Output is for one goroutine.
package encode
