// Package retry is how long a loop waits before it tries again what has failed, and which errors end that: those that no retry can cure.
package retry
