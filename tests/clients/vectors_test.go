// SPDX-License-Identifier: Apache-2.0

package pawlclient

// Checks examples/clients/pawl_client.go by its vectors, beside both of which it is copied.

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

type vectors struct {
	Canonical []struct {
		Body, Canonical string
		Hash            string `json:"payload_hash"`
	}
	Keys   []struct{ Random, Key string }
	Dated  []struct {
		MadeMs      int64 `json:"made_ms"`
		Random, Key string
	} `json:"dated_keys"`
	Delays []struct {
		Profile, Seed string
		Delays        []int64 `json:"delays_ms"`
	}
	Responses []struct {
		Name, Body, Class string
		Status            int
		Headers           []string
		Done, Later       []int
		InDoubt           string `json:"in_doubt"`
		LeavesDoubt       bool   `json:"leaves_doubt"`
	}
	Portals []struct {
		Name, URL     string
		Sent, Headers []string
		Status        int
		Done, Later   []int
		Portal        bool
	}
	HintsAt int64 `json:"hints_at_ms"`
	Hints   []struct {
		Value string
		Hint  *int64 `json:"hint_ms"`
	}
	Decisions []struct {
		Profile, Seed string
		Deadline      *int64 `json:"deadline_ms"`
		Steps         []struct {
			Status         int
			Code, Decision string
			Took           int64  `json:"took_ms"`
			Hint           *int64 `json:"hint_ms"`
			At             int64  `json:"at_ms"`
		}
	}
}

func read(t *testing.T) (read vectors) {
	text, err := os.ReadFile("vectors.json")
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func headerOf(lines []string) http.Header {
	header := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		header.Add(name, value)
	}
	return header
}

func seedOf(text string) uint64 {
	seed, _ := strconv.ParseUint(text, 10, 64)
	return seed
}

func TestPayloadsAndKeys(t *testing.T) {
	vectors := read(t)
	for _, one := range vectors.Canonical {
		body := []byte(one.Body)
		if made := string(Canonical(body)); made != one.Canonical || PayloadHash(body) != one.Hash {
			t.Errorf("%q: %q", one.Body, made)
		}
	}
	for _, one := range vectors.Keys {
		var random [16]byte
		hex.Decode(random[:], []byte(one.Random))
		if made := FormatKey(random); made != one.Key {
			t.Errorf("%s: %s", one.Random, made)
		}
	}
	for _, one := range vectors.Dated {
		var random [16]byte
		hex.Decode(random[:], []byte(one.Random))
		if made := FormatDatedKey(one.MadeMs, random); made != one.Key {
			t.Errorf("%d %s: %s", one.MadeMs, one.Random, made)
		}
	}
}

func TestDelays(t *testing.T) {
	for _, one := range read(t).Delays {
		profile := Profiles[one.Profile]
		for i, wanted := range one.Delays {
			if made := profile.Delay(i+2, seedOf(one.Seed)); made != wanted {
				t.Errorf("%s %s: %d, not %d", one.Profile, one.Seed, made, wanted)
			}
		}
	}
}

func TestResponses(t *testing.T) {
	vectors := read(t)
	for _, one := range vectors.Responses {
		header := headerOf(one.Headers)
		if made := LeavesDoubt(one.Status, header, []byte(one.Body)); made != one.LeavesDoubt {
			t.Errorf("%s leaves doubt: %v", one.Name, made)
		}
		choices := Choices{Done: one.Done, Later: one.Later}
		for doubted, wanted := range map[bool]string{false: one.Class, true: one.InDoubt} {
			made := Classify(one.Status, header, []byte(one.Body), doubted, choices)
			if made != wanted {
				t.Errorf("%s, in doubt %v: %s", one.Name, doubted, made)
			}
		}
	}
	for _, one := range vectors.Portals {
		choices := Choices{Done: one.Done, Later: one.Later}
		sent, header := headerOf(one.Sent), headerOf(one.Headers)
		if made := IsPortal(one.URL, sent, one.Status, header, choices); made != one.Portal {
			t.Errorf("%s: %v", one.Name, made)
		}
	}
	for _, one := range vectors.Hints {
		made, has := ReadHint([]string{one.Value}, vectors.HintsAt)
		if has != (one.Hint != nil) || has && made != *one.Hint {
			t.Errorf("%q: %d %v", one.Value, made, has)
		}
	}
	if made, has := ReadHint([]string{"5", "soon", "7"}, 0); !has || made != 7000 {
		t.Errorf("three lines: %d", made)
	}
}

func TestDecisions(t *testing.T) {
	for _, one := range read(t).Decisions {
		deadline, now := Never, int64(0)
		if one.Deadline != nil {
			deadline = *one.Deadline
		}
		course := NewCourse(Profiles[one.Profile], seedOf(one.Seed), deadline)
		for _, step := range one.Steps {
			hint := int64(0)
			if step.Hint != nil {
				hint = *step.Hint
			}
			header := http.Header{"Error-Code": {step.Code}}
			kind := Classify(step.Status, header, nil, course.InDoubt, Choices{})
			decision, at := course.Decide(kind, hint, step.Hint != nil, now+step.Took)
			if decision != step.Decision || at != step.At {
				t.Errorf("%s %s: %s %d, not %+v", one.Profile, one.Seed, decision, at, step)
			}
			course.InDoubt = course.InDoubt || LeavesDoubt(step.Status, header, nil)
			now = at
			course.Attempts++
		}
	}
}
