// Package watch tells by running figures and by chance whether rows are as those before them.
package watch
