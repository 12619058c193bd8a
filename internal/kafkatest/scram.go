package kafkatest

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
)

// iterations is the fewest that Kafka takes.
const iterations = 4096

// salted is SaltedPassword of RFC 5802, section 3: a broker is given this, never the password.
func salted(mechanism, password string, salt []byte) []byte {
	h, size := sha256.New, sha256.Size
	if mechanism == "SCRAM-SHA-512" {
		h, size = sha512.New, sha512.Size
	}
	key, err := pbkdf2.Key(func() hash.Hash { return h() }, password, salt, iterations, size)
	if err != nil { // only in FIPS mode, for a short salt
		panic(err)
	}
	return key
}
