// Package app is what all commands share of a command line: the program's environment (Program), flags and their faults,
// exit codes, the logger, the files that are read and written, and the memory that may be used. It knows no brokers:
// package system does.
//
// A command is a function of a Program that returns a cobra command made with Command, which gives errors their exit codes.
package app
