// Package doctor holds the commands for before a stream runs, and for when it does not: doctor, inspect, init and topics.
package doctor
