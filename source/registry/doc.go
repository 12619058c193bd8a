// Package registry asks a schema registry, by Confluent's API, for the schemas that messages name, and registers those
// of messages that are written.
//
// Begin with [Open], and give the [Client] to those who read or write:
//
//	c, err := registry.Open(registry.Config{URL: "http://localhost:8081"})
//	if err != nil { … }
//	defer c.Close()
//	decoder, err := format.NewDecoder(format.Config{Registry: c})
//
// What the registry's answers lead to:
//
//	no answer, 408, 429, 5xx        is waited for, without end; Config.Log and Config.Changed are told
//	an id that is not known there   asked again for 5 s, because a registry's replicas may lag; then format.ErrNoSchema,
//	                                remembered for 30 s
//	a schema of more than 16 MiB,   format.ErrUnusableSchema, remembered for 30 s
//	or with more than 256 references
//	401, 403, a certificate that    an error with its remedy: a person is needed
//	does not fit, no registry there,
//	a redirection of what is registered
//	409 to Register                 asked again for a second, because several clients may register at once; then as 422
//	422 to Register                 an error with the registry's own words
//
// Schemas never change, so they are remembered: at most 1000 of them, and 64 MiB. Schemas
// that a schema refers to are fetched with it. Calls for the same schema share one request.
package registry
