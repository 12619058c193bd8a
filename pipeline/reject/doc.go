// Package reject is what becomes of messages and rows that cannot be used: the reasons by which they are counted, dead letters, what is
// said of them, and the faults at which the process stops.
//
// Begin with [DeadLetter], which makes a dead letter of a message or returns the [Stop], and with [DeadLog], which logs what was set
// aside: the first of each reason at once, then a line a minute. The names of our headers, and the [Carry] that keeps those of the
// input, are here too, because every other room reads or writes some of them.
//
// Nothing here reads or writes Kafka. The number of reasons is bounded, and so is what is remembered of them.
package reject
