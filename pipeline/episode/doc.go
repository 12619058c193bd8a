// Package episode tells people of stretches of a series that are unusual: each once when it begins, now and then while it lasts, and once when it is over.
//
// An Open is what is kept of an episode that is open; it is a function of the scores of its rows and of the levels at which they were judged. A Record
// is what is said of it, as JSON.
package episode
