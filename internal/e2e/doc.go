// Package e2e holds the tests of the whole program, from outside: the binary as a user starts it,
// real Apache Kafka, and a judge that shares no code with it (internal/kafkatest/checker).
//
// A run of a test is: make the topics with `lca-stream topics init`, write a stream into the source
// topic, start `lca-stream run` (or learn and transform), do to it what the test is about, wait until
// everything is read, stop it with SIGTERM, and let the judge read the topics. There is nothing in
// this package but tests.
//
// The tests wait more than they compute, so all run next to each other, on the brokers that they share (see kafkatest.Shared), except those that
// measure memory or set variables of the environment. A test that stops its broker, or needs one with other settings, has its own.
package e2e
