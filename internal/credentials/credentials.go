// Package credentials reads what a configuration gives as a value or as a file: secrets and the authorities to trust.
package credentials

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Secret returns a secret that is given as it is, or in a file, whose line end is left out. key is the first of the two
// settings, which errors name.
func Secret(secret, file, key string) (string, error) {
	switch {
	case file == "":
		return secret, nil
	case secret != "":
		return "", fmt.Errorf("%s and %[1]s_file are both set: keep one", key)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s_file: %w", key, err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// Hidden is what a server has said, without the login that it was shown, which it may repeat.
func Hidden(said, user, secret string) string {
	if secret == "" {
		return said
	}
	const mask = "********"
	shown := base64.StdEncoding.EncodeToString([]byte(user + ":" + secret))
	return strings.NewReplacer(secret, mask, shown, mask, strings.TrimRight(shown, "="), mask).Replace(said)
}

// Renewed returns a function that reads a secret again, as Secret, so that one in a file may be renewed while the program runs. Where
// the file cannot be read, it returns the last one that was. The first time is now, and its error is returned.
func Renewed(secret, file, key string) (func() string, error) {
	last, err := Secret(secret, file, key)
	if err != nil || file == "" {
		return func() string { return last }, err
	}
	var lock sync.Mutex
	return func() string {
		lock.Lock()
		defer lock.Unlock()
		if now, err := Secret("", file, key); err == nil && now != "" {
			last = now
		}
		return last
	}, nil
}

// Authorities reads the PEM certificates to trust from a file, which key names; nil is the system's.
func Authorities(file, key string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	return appended(x509.NewCertPool(), file, key)
}

// MoreAuthorities returns those of a file and the system's.
func MoreAuthorities(file, key string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's certificates: %w", err)
	}
	return appended(pool, file, key)
}

func appended(pool *x509.CertPool, file, key string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s holds no PEM certificate", key, file)
	}
	return pool, nil
}
