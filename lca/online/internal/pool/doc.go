// Package pool holds rows of a stream: those that are neighbours of the rows to come, where each of them stands in time, and which record each of them is.
package pool
