// SPDX-License-Identifier: Apache-2.0

// Package pawlclient sends one operation once: one key through all of its retries. Go 1.19, no
// dependency.
//
//	result := pawlclient.Send(ctx, pawlclient.Operation{
//		Method: "POST", URL: "https://api.example.com/refunds", Body: []byte(`{"amount":1000}`),
//		Header: http.Header{"Content-Type": {"application/json"}}})
//	result.Ended == "done"
//
// Keep the key with the operation: whoever sends it again later, after a crash or on another day,
// sends it under the same key. vectors.json says what each function returns.
package pawlclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// ---- keys and payloads ----

// FormatKey is the UUIDv4 of 16 random bytes.
func FormatKey(random [16]byte) string {
	random[6] = random[6]&0x0f | 0x40
	random[8] = random[8]&0x3f | 0x80
	text := hex.EncodeToString(random[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// FormatDatedKey is the UUIDv7 of a time, and of 16 random bytes behind the first six.
func FormatDatedKey(madeMs int64, random [16]byte) string {
	for i := 0; i < 6; i++ {
		random[i] = byte(madeMs >> (40 - 8*i))
	}
	key := FormatKey(random)
	return key[:14] + "7" + key[15:]
}

// MintDatedKey makes a key that says when it was made (key_format: uuid7).
func MintDatedKey() string {
	var random [16]byte
	mustRead(random[:])
	return FormatDatedKey(time.Now().UnixMilli(), random)
}

// MintKey makes a key that nobody else makes.
func MintKey() string {
	var random [16]byte
	mustRead(random[:])
	return FormatKey(random)
}

func mustRead(random []byte) {
	if _, err := rand.Read(random); err != nil {
		panic(err)
	}
}

var errNotCanonical = errors.New("no canonical form")

// The canonical text of a JSON number: its value never goes through a double.
func canonicalNumber(text string) (string, error) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, part, _ := strings.Cut(mantissa, ".")
	shifted := strings.TrimLeft(whole+part, "0")
	digits := strings.TrimRight(shifted, "0")
	if digits == "" {
		return "0", nil
	}
	shift, err := strconv.Atoi(exponent)
	if exponent != "" && err != nil || shift > 1<<40 || shift < -1<<40 || len(digits) > 1000 {
		return "", errNotCanonical
	}
	point := len(whole) - (len(whole+part) - len(shifted)) + shift
	rest := digits[1:]
	switch {
	case point-1 > 9999 || point-1 < -9999:
		return "", errNotCanonical
	case point >= len(digits) && point <= 21:
		return sign + digits + strings.Repeat("0", point-len(digits)), nil
	case point > 0 && point <= 21:
		return sign + digits[:point] + "." + digits[point:], nil
	case point > -6 && point <= 0:
		return sign + "0." + strings.Repeat("0", -point) + digits, nil
	case rest != "":
		rest = "." + rest
	}
	return fmt.Sprintf("%s%s%se%+d", sign, digits[:1], rest, point-1), nil
}

var (
	jsonNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?`)
	jsonString = regexp.MustCompile(`^"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"`)
	jsonWord   = regexp.MustCompile(`^(?:true|false|null)`)
)

// Reads JSON, and writes it anew. encoding/json would drop members of one name and replace lone
// surrogates.
type canonicalReader struct{ text string }

func (r *canonicalReader) skip() {
	r.text = strings.TrimLeft(r.text, " \t\n\r")
}

func (r *canonicalReader) take(mark string) bool {
	r.skip()
	taken := strings.HasPrefix(r.text, mark)
	if taken {
		r.text = r.text[len(mark):]
	}
	return taken
}

func (r *canonicalReader) takeMatch(form *regexp.Regexp) string {
	r.skip()
	found := form.FindString(r.text)
	r.text = r.text[len(found):]
	return found
}

func (r *canonicalReader) value(depth int) (string, error) {
	if number := r.takeMatch(jsonNumber); number != "" {
		return canonicalNumber(number)
	}
	if word := r.takeMatch(jsonWord); word != "" {
		return word, nil
	}
	isList, isObject := r.take("["), false
	if !isList {
		isObject = r.take("{")
	}
	switch {
	case (isList || isObject) && depth == 200:
		return "", errNotCanonical
	case isList:
		return r.list(depth + 1)
	case isObject:
		return r.object(depth + 1)
	}
	value, err := r.string()
	return quote(value), err
}

// The text of a string.
func (r *canonicalReader) string() (string, error) {
	literal := r.takeMatch(jsonString)
	if literal == "" {
		return "", errNotCanonical
	}
	for rest := literal; len(rest) > 0; {
		unit, size := escapedUnit(rest)
		rest = rest[size:]
		if !utf16.IsSurrogate(unit) {
			continue
		}
		low, lowSize := escapedUnit(rest)
		if utf16.DecodeRune(unit, low) == utf8.RuneError {
			return "", errNotCanonical
		}
		rest = rest[lowSize:]
	}
	var value string
	err := json.Unmarshal([]byte(literal), &value)
	return value, err
}

// The UTF-16 unit of a \u escape that `text` begins with, else 0; and what is to be skipped.
func escapedUnit(text string) (rune, int) {
	switch {
	case text[0] != '\\':
		return 0, 1
	case text[1] != 'u':
		return 0, 2
	}
	unit, _ := strconv.ParseUint(text[2:6], 16, 16)
	return rune(unit), 6
}

func quote(text string) string {
	var out strings.Builder
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`,
		'\t': `\t`}
	out.WriteByte('"')
	for _, c := range text {
		if escape, ok := short[c]; ok {
			out.WriteString(escape)
		} else if c < ' ' {
			fmt.Fprintf(&out, `\u%04x`, c)
		} else {
			out.WriteRune(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}

func (r *canonicalReader) list(depth int) (string, error) {
	if r.take("]") {
		return "[]", nil
	}
	var items []string
	for {
		item, err := r.value(depth)
		if err != nil {
			return "", err
		}
		items = append(items, item)
		if r.take("]") {
			return "[" + strings.Join(items, ",") + "]", nil
		}
		if !r.take(",") {
			return "", errNotCanonical
		}
	}
}

func (r *canonicalReader) object(depth int) (string, error) {
	if r.take("}") {
		return "{}", nil
	}
	members := map[string]string{}
	for {
		name, err := r.string()
		if _, has := members[name]; err != nil || has || !r.take(":") {
			return "", errNotCanonical
		}
		if members[name], err = r.value(depth); err != nil {
			return "", err
		}
		if r.take("}") {
			return joinMembers(members), nil
		}
		if !r.take(",") {
			return "", errNotCanonical
		}
	}
}

// By UTF-16 code units, as RFC 8785 says: compared as big-endian bytes.
func joinMembers(members map[string]string) string {
	type member struct{ order, text string }
	var sorted []member
	for name, value := range members {
		var order []byte
		for _, unit := range utf16.Encode([]rune(name)) {
			order = append(order, byte(unit>>8), byte(unit))
		}
		sorted = append(sorted, member{string(order), quote(name) + ":" + value})
	}
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].order < sorted[j].order })
	texts := make([]string, len(sorted))
	for i, one := range sorted {
		texts[i] = one.text
	}
	return "{" + strings.Join(texts, ",") + "}"
}

// Canonical is the bytes of a JSON body that count: RFC 8785, save that numbers count by their
// decimal value. What has no such form counts as it is.
func Canonical(body []byte) []byte {
	if text, has := canonicalText(body); has {
		return []byte(text)
	}
	return body
}

// False: it is no JSON, or has no such form.
func canonicalText(body []byte) (string, bool) {
	reader := canonicalReader{string(body)}
	text, err := reader.value(0)
	reader.skip()
	return text, utf8.Valid(body) && err == nil && reader.text == ""
}

// PayloadHash is the same of two JSON bodies of one operation; another one needs another key.
func PayloadHash(body []byte) string {
	hash := sha256.Sum256(Canonical(body))
	return hex.EncodeToString(hash[:])
}

// ---- when it is sent again ----

// Profile says how often and when an operation is sent; times are milliseconds.
type Profile struct {
	Attempts int
	Total    int64 // Never: no limit
	Base     int64
	Cap      int64
	Spread   bool    // to twice the delay; else by Base at most
	OffsetsS []int64 // seconds since the first attempt, in the place of delays
	By408    bool    // the first 408, too, waits for the schedule
}

// Never is a time that does not come.
const Never int64 = math.MaxInt64 / 4

const (
	busyLeastMs    = 1_000      // after a Retry-After
	busyFirstMs    = 2_000      // without one, and doubled
	busyLastMs     = 30_000     // at most
	busyMostMs     = 900_000    // for so long, where it only may be so
	hintMostMs     = 86_400_000 // where no deadline bounds it
	hintSpreadMs   = 10_000     // a hint up to this is spread by itself, a longer one less
	hintLongestMs  = 9_999_999_999_000
	fiftyYearsMs   = 50 * 31_556_952_000
	errorBodyBytes = 16 * 1024
)

// Profiles by name.
var Profiles = map[string]Profile{
	"user_facing": {Attempts: 5, Total: 10_000, Base: 100, Cap: 2_000, Spread: true},
	"api":         {Attempts: 4, Total: 10_000, Base: 1_000, Cap: 30_000},
	"background":  {Attempts: 6, Total: 300_000, Base: 1_000, Cap: 30_000},
	"scheduled":   {Attempts: 4, Total: 3_600_000, Base: 1_000, Cap: 30_000},
	"webhook": {Attempts: 10, Total: 86_400_000, By408: true,
		OffsetsS: []int64{0, 5, 30, 120, 600, 1800, 3600, 21600, 43200, 86400}},
	"queue": {Attempts: 10, Total: Never, Base: 1_000, Cap: 300_000, By408: true},
}

// 0 to `most`: the n-th number of splitmix64 under this seed.
func draw(seed uint64, n int, most int64) int64 {
	z := seed + uint64(n)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int64((z ^ z>>31) % uint64(most+1))
}

func least(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func (p *Profile) offset(attempt int, seed uint64) int64 {
	at := p.OffsetsS[attempt-1] * 1000
	if attempt == 1 || attempt == p.Attempts {
		return at
	}
	return at + draw(seed, attempt, (at-p.OffsetsS[attempt-2]*1000)/10)
}

// Delay before attempt 2, 3, ..
func (p *Profile) Delay(attempt int, seed uint64) int64 {
	if p.OffsetsS != nil {
		return p.offset(attempt, seed) - p.offset(attempt-1, seed)
	}
	delay := least(p.Base<<(attempt-2), p.Cap)
	most := p.Base
	if p.Spread {
		most = delay
	}
	return least(delay+draw(seed, attempt, most), p.Cap)
}

// Choices is what the caller knows of single statuses.
type Choices struct {
	Done, Later []int
}

func has(list []int, status int) bool {
	for _, one := range list {
		if one == status {
			return true
		}
	}
	return false
}

var busyWords = map[string]bool{"409 CONCURRENT_REQUEST": true, "409 idempotency_key_in_use": true,
	"409 PREVIOUS_REQUEST_IN_PROGRESS": true, "409 704": true, "422 704": true,
	"429 lock_timeout": true}

// The JSON of a body of at most 16 KiB, read as strictly as what is sent.
func treeOf(body []byte) (tree any) {
	if len(body) > errorBodyBytes {
		return nil
	}
	text, has := canonicalText(body)
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if !has || decoder.Decode(&tree) != nil {
		return nil
	}
	return tree
}

// The value at these member names and indexes.
func at(tree any, steps ...any) any {
	for _, step := range steps {
		switch step := step.(type) {
		case string:
			object, _ := tree.(map[string]any)
			tree = object[step]
		case int:
			list, _ := tree.([]any)
			if len(list) <= step {
				return nil
			}
			tree = list[step]
		}
	}
	return tree
}

// ErrorCode is the error code of a response, where services have it; empty: it has none.
func ErrorCode(header http.Header, body []byte) string {
	if values := header.Values("Error-Code"); len(values) > 0 {
		return values[0]
	}
	tree := treeOf(body)
	for _, one := range []any{at(tree, "error_code"), at(tree, "error", "code"),
		at(tree, "errorCode"), at(tree, "details", 0, "issue")} {
		if code, ok := one.(string); ok {
			return code
		}
	}
	return ""
}

// What a response says itself about a retry.
func advice(header http.Header, problem any) (again, says bool) {
	if again, says = at(problem, "retryable").(bool); says {
		return again, says
	}
	for _, name := range []string{"Stripe-Should-Retry", "X-Should-Retry", "Transient-Error"} {
		switch strings.ToLower(strings.TrimSpace(header.Get(name))) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	}
	return false, false
}

// The words of the IETF draft.
func isOutstanding(problem any) bool {
	for _, name := range []string{"title", "type"} {
		words, _ := at(problem, name).(string)
		if strings.Contains(strings.ToLower(words), "request is outstanding") {
			return true
		}
	}
	return false
}

// What a gateway of pawl's says of a 2xx: it stands, is surely undone, or nobody is sure.
func success(header http.Header) string {
	word := strings.TrimSpace(header.Get("Idempotency-Status"))
	switch {
	case word == "unknown" || word == "released" && header.Get("Error-Code") != "":
		return "unsure"
	case word == "released":
		return "undone"
	}
	return "stands"
}

// LeavesDoubt says whether the operation may have been done; status 0: there was no response.
func LeavesDoubt(status int, header http.Header, body []byte) bool {
	if status >= 200 && status <= 299 {
		return success(header) == "unsure"
	}
	return status == 0 || status >= 500 && status != 501 && status != 503 && status != 505 &&
		status != 508 || ErrorCode(header, body) == "CONFLICT.idempotency.outcome_unknown"
}

var jsonType = regexp.MustCompile(
	"^(application/json|[!#$%&'*+.^_`|~0-9a-z-]+/[!#$%&'*+.^_`|~0-9a-z-]+[+]json)$")

func mediaTypeOf(value string) string {
	mediaType, _, _ := strings.Cut(value, ";")
	return strings.ToLower(strings.TrimSpace(mediaType))
}

// By Accept, which may also take HTML; by what is sent where that names neither.
func asksForJSON(sent http.Header) bool {
	accepts := false
	for _, line := range sent.Values("Accept") {
		for _, one := range strings.Split(line, ",") {
			if mediaTypeOf(one) == "text/html" {
				return false
			}
			accepts = accepts || jsonType.MatchString(mediaTypeOf(one))
		}
	}
	return accepts || jsonType.MatchString(mediaTypeOf(sent.Get("Content-Type")))
}

// IsPortal says whether a response is none of the service's, but of a portal on the way, such as the
// login page of a hotel's network, which reaches nobody: without TLS a redirect, or a page of HTML
// where JSON was asked for. `sent`: the headers of the request.
func IsPortal(url string, sent http.Header, status int, header http.Header, choices Choices) bool {
	scheme, _, _ := strings.Cut(url, ":")
	switch {
	case strings.EqualFold(scheme, "https"), has(choices.Done, status), has(choices.Later, status),
		header.Get("Idempotency-Status") != "":
		return false
	case status == 200, status == 511:
		return mediaTypeOf(header.Get("Content-Type")) == "text/html" && asksForJSON(sent)
	}
	return has([]int{301, 302, 303, 307, 308}, status)
}

// Classify says what an attempt's end means: done, final, in_doubt, credentials, later, at_once,
// busy, busy_a_while. Status 0: there was no response. `inDoubt`: an earlier attempt under this key
// may have been carried out.
func Classify(status int, header http.Header, body []byte, inDoubt bool, choices Choices) string {
	code := ErrorCode(header, body)
	refused := status >= 400 && status <= 499
	var problem any
	mediaType, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(mediaType), "application/problem+json") {
		problem = treeOf(body)
	}
	switch {
	case status == 0:
		return "later"
	case status >= 200 && status <= 299 && success(header) != "stands":
		return "later"
	case code == "PROVIDER.duplicate" || status >= 200 && status <= 299:
		return "done"
	case (status == 401 || status == 407) && code != "AUTH.signature":
		return "credentials"
	case code == "CONFLICT.idempotency.duplicate":
		return "final"
	case busyWords[strconv.Itoa(status)+" "+code], status == 409 && isOutstanding(problem),
		refused && strings.HasSuffix(code, "idempotency.in_progress"):
		return "busy"
	case refused && strings.HasSuffix(code, ".in_progress"):
		return "busy_a_while"
	}
	end := "final"
	if inDoubt || LeavesDoubt(status, header, body) {
		end = "in_doubt"
	}
	again, says := advice(header, problem)
	limited := header.Get("Retry-After") != "" || header.Get("X-RateLimit-Remaining") == "0"
	switch {
	case says && !again:
		return end
	case says && status == 409:
		return "busy"
	case says:
		return "later"
	case has(choices.Done, status):
		return "done"
	case has(choices.Later, status):
		return "later"
	case status == 403 && limited:
		return "later"
	case status == 409 && inDoubt:
		return "busy_a_while"
	case status == 408:
		return "at_once"
	case status == 501 || status == 505:
		return end
	case status == 425 || status == 429 || status >= 500:
		return "later"
	}
	return end
}

// The three forms of an HTTP date (RFC 9110 5.6.7): what Go reads more freely is checked first.
var dates = []struct {
	form   *regexp.Regexp
	layout string
}{
	{regexp.MustCompile(`^[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT$`),
		"Mon, 02 Jan 2006 15:04:05 GMT"},
	{regexp.MustCompile(`^[A-Z][a-z]{5,8}, [0-9]{2}-[A-Z][a-z]{2}-[0-9]{2} [0-9:]{8} GMT$`),
		"Monday, 02-Jan-06 15:04:05 GMT"},
	{regexp.MustCompile(`^[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}$`),
		"Mon Jan _2 15:04:05 2006"},
}

func dateMs(text string, nowMs int64) (int64, bool) {
	leap := int64(0) // a leap second is the second after it
	if strings.Contains(text, ":60 ") {
		text, leap = strings.Replace(text, ":60 ", ":59 ", 1), 1000
	}
	for i, date := range dates {
		at, err := time.Parse(date.layout, text)
		if err != nil || !date.form.MatchString(text) {
			continue
		}
		if i == 1 { // at most 50 years ahead, else it has passed
			latest := time.UnixMilli(nowMs).UTC().Year() + 50
			at = at.AddDate(latest-(latest-at.Year()%100)%100-at.Year(), 0, 0)
			if at.UnixMilli() > nowMs+fiftyYearsMs {
				return 0, true
			}
		}
		return at.UnixMilli() + leap, true
	}
	return 0, false
}

var number = regexp.MustCompile(`^([0-9]+)([.][0-9]+)?$`)

// One line of Retry-After.
func lineMs(text string, nowMs int64) (longest int64, ok bool) {
	if at, ok := dateMs(text, nowMs); ok {
		return most(at-nowMs, 0), true
	}
	for _, one := range strings.Split(text, ",") {
		found := number.FindStringSubmatch(strings.Trim(one, " \t"))
		if found == nil {
			return 0, false
		}
		seconds, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil || seconds > hintLongestMs/1000 {
			seconds = hintLongestMs / 1000
		}
		if strings.Trim(found[2], ".0") != "" {
			seconds++
		}
		longest = most(longest, seconds*1000)
	}
	return longest, true
}

// ReadHint is how many milliseconds Retry-After asks to wait: the longest of its lines, each of them
// a date, or seconds, with a fraction or without (rounded up), or a list of them.
func ReadHint(values []string, nowMs int64) (hint int64, has bool) {
	for _, value := range values {
		if one, ok := lineMs(strings.Trim(value, " \t"), nowMs); ok {
			hint, has = most(hint, least(one, hintLongestMs)), true
		}
	}
	return hint, has
}

// Course is the attempts at one operation; times are milliseconds since the first one began.
type Course struct {
	Profile  Profile
	Seed     uint64
	Deadline int64 // the caller's own or the profile's, whichever is first
	Attempts int   // those that count

	Uncounted int
	InDoubt   bool // an attempt may have been carried out
	busySince int64
	isBusy    bool
	had408    bool
}

// NewCourse makes one whose first attempt begins now; `deadline` may be Never.
func NewCourse(profile Profile, seed uint64, deadline int64) *Course {
	deadline = least(deadline, profile.Total)
	return &Course{Profile: profile, Seed: seed, Deadline: deadline, Attempts: 1}
}

func (c *Course) scheduled(kind string, now int64) int64 {
	first408 := kind == "at_once" && !c.had408
	c.had408 = c.had408 || kind == "at_once"
	if first408 && !c.Profile.By408 {
		return now
	}
	if c.Profile.OffsetsS == nil {
		return now + c.Profile.Delay(c.Attempts+1, c.Seed)
	}
	for n := c.Attempts + 1; n <= c.Profile.Attempts; n++ {
		if at := c.Profile.offset(n, c.Seed); at > now {
			return at
		}
	}
	return Never
}

// Spread upward, but not by that beyond the deadline.
func (c *Course) hinted(hint, now int64) int64 {
	if c.Deadline == Never {
		hint = least(hint, hintMostMs)
	}
	if now+hint >= c.Deadline {
		return now + hint
	}
	spread := least(hint, hintSpreadMs)
	if hint/10 > spread {
		spread = hint / 10
	}
	return now + hint + draw(c.Seed, c.Attempts+c.Uncounted+1, least(spread, c.Deadline-now-hint))
}

func most(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

// Uses up no attempt: only the deadline ends it.
func (c *Course) busy(hint int64, hasHint bool, now int64) (string, int64) {
	if !c.isBusy {
		c.isBusy, c.busySince = true, now
	}
	wait, ended := most(busyFirstMs, least(now-c.busySince, busyLastMs)), "deadline"
	if hasHint {
		wait, ended = most(hint, busyLeastMs), "hint"
	}
	at := c.hinted(wait, now)
	c.Attempts--
	c.Uncounted++
	if at > c.Deadline {
		return ended, 0
	}
	return "retry", at
}

// Decide is ("retry", when), or why there is no further attempt.
func (c *Course) Decide(kind string, hint int64, hasHint bool, now int64) (string, int64) {
	switch {
	case kind == "done" || kind == "final" || kind == "in_doubt" || kind == "credentials":
		return kind, 0
	case kind == "busy_a_while" && c.isBusy && now-c.busySince >= busyMostMs && c.InDoubt:
		return "in_doubt", 0
	case kind == "busy_a_while" && c.isBusy && now-c.busySince >= busyMostMs:
		return "final", 0
	case kind == "busy" || kind == "busy_a_while":
		return c.busy(hint, hasHint, now)
	}
	c.isBusy = false
	if c.Attempts >= c.Profile.Attempts {
		return "attempts", 0
	}
	at := c.scheduled(kind, now)
	if at > c.Deadline || at == Never {
		return "deadline", 0
	}
	if hasHint {
		hinted := c.hinted(hint, now)
		if hinted > c.Deadline {
			return "hint", 0
		}
		if hinted > at {
			at = hinted
		}
	}
	return "retry", at
}

// ---- sending ----

// Operation is what must happen once.
type Operation struct {
	Method, URL string
	Header      http.Header
	Body        []byte
	Key         string        // default: a new one
	Profile     string        // default: user_facing
	Deadline    time.Duration // of all attempts; default: the profile's
	Attempt     time.Duration // of one; default: 30 s
	Choices     Choices
	// Whether a response says, by whatever it has, that it was not done; may be nil.
	NotDone func(header http.Header, body []byte) bool
}

// Result is how an operation ended. Where InDoubt, or under IdempotencyStatus "unknown", it may have
// happened: send it again under the same key, never another.
type Result struct {
	Key      string
	Ended    string // done, final, in_doubt, credentials, attempts, deadline, hint; canceled: by the context
	Attempts int
	InDoubt  bool
	Status   int // of the last response; 0: there was none, or a portal's
	Header   http.Header
	Body     []byte
	Code     string // its error code
}

// IdempotencyStatus is pawl's word for it: stored, replayed, ..; empty without a gateway of pawl's.
func (r *Result) IdempotencyStatus() string {
	return r.Header.Get("Idempotency-Status")
}

var client = http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Status 0: no whole response came. Redirects are not followed.
func (o *Operation) attempt(ctx context.Context, key string, limit time.Duration) Result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, o.Method, o.URL, bytes.NewReader(o.Body))
	if err != nil {
		return Result{}
	}
	// With it, net/http would send the request again by itself, because it has a key.
	request.GetBody = nil
	if o.Header != nil {
		request.Header = o.Header.Clone()
	}
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("X-Request-Timeout", strconv.FormatInt(limit.Milliseconds(), 10))
	response, err := client.Do(request)
	if err != nil {
		return Result{}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return Result{}
	}
	return Result{Status: response.StatusCode, Header: response.Header, Body: body,
		Code: ErrorCode(response.Header, body)}
}

// Send sends one operation until it is done or cannot be.
func Send(ctx context.Context, operation Operation) Result {
	key, name, limit, deadline := operation.Key, operation.Profile, operation.Attempt, Never
	if key == "" {
		key = MintKey()
	}
	if name == "" {
		name = "user_facing"
	}
	if limit == 0 {
		limit = 30 * time.Second
	}
	if operation.Deadline > 0 {
		deadline = operation.Deadline.Milliseconds()
	}
	profile, known := Profiles[name]
	if !known {
		panic("no profile " + name)
	}
	var seed [8]byte
	mustRead(seed[:])
	course := NewCourse(profile, binary.BigEndian.Uint64(seed[:]), deadline)
	began := time.Now()
	now := func() int64 { return time.Since(began).Milliseconds() }
	for ; ; course.Attempts++ {
		left := time.Duration(least(course.Deadline-now(), limit.Milliseconds())) * time.Millisecond
		if left < time.Millisecond {
			left = time.Millisecond
		}
		result := operation.attempt(ctx, key, left)
		undone := result.Status != 0 && operation.NotDone != nil &&
			operation.NotDone(result.Header, result.Body)
		portal := !undone && IsPortal(operation.URL, operation.Header, result.Status,
			result.Header, operation.Choices)
		if portal {
			result = Result{}
		}
		hint, hasHint := ReadHint(result.Header.Values("Retry-After"), time.Now().UnixMilli())
		kind := Classify(result.Status, result.Header, result.Body, course.InDoubt,
			operation.Choices)
		if undone {
			kind = "later"
		}
		ended, at := course.Decide(kind, hint, hasHint, now())
		course.InDoubt = kind != "done" && kind != "final" &&
			(course.InDoubt || LeavesDoubt(result.Status, result.Header, result.Body) &&
				!undone && !portal)
		result.Key, result.Ended, result.InDoubt = key, ended, course.InDoubt
		result.Attempts = course.Attempts + course.Uncounted
		if ended != "retry" {
			return result
		}
		select {
		case <-ctx.Done():
			result.Ended = "canceled"
			return result
		case <-time.After(time.Duration(at-now()) * time.Millisecond):
		}
	}
}
