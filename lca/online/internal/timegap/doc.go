// Package timegap finds out for how many rows those of a stream depend on each other.
package timegap
