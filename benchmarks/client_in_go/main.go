// A client of an API server with the HTTP stack that client-go has. It loads the server and prints a line of JSON.
//
// The client costs less than the server that it measures, in each of the languages that servers are written in.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maps = "/api/v1/namespaces/default/configmaps"
	pods = "/api/v1/namespaces/default/pods"
	some = 100 // objects that gets, patches and watches are of
)

var (
	url      = flag.String("url", "", "of the server")
	ca       = flag.String("ca", "", "file with the certificate of its authority")
	job      = flag.String("do", "create", "create, get, status or watch")
	protocol = flag.String("protocol", "2", "of HTTP: 1.1 or 2")
	atOnce   = flag.Int("at-once", 32, "requests at once; patches at once for watches")
	seconds  = flag.Float64("seconds", 3, "of requests")
	units    = flag.Int("units", 0, "requests in all, in place of seconds")
	watches  = flag.Int("watches", 200, "watches")
	changes  = flag.Int("changes", 1000, "changes that every watch sees")

	run   = fmt.Sprintf("%x", time.Now().UnixNano())
	token = os.Getenv("TOKEN")
)

// result says how many requests or events there were, in what time, and in milliseconds how long a request took.
type result struct {
	Units    int     `json:"units"`
	Seconds  float64 `json:"seconds"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	Reopened int64   `json:"reopened"` // watches that the server ended, and that went on from their last change
}

type object struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

func main() {
	flag.Parse()
	client := connect()
	ask(client, "GET", "/version", "", nil) // so that requests at once find one connection of HTTP/2
	var found result
	switch *job {
	case "create":
		found = load(func(number int) { create(client, number) })
	case "get":
		names := fill(client, maps, configMap)
		found = load(func(number int) { ask(client, "GET", maps+"/"+names[number%some], "", nil) })
	case "status":
		names := fill(client, pods, pod)
		found = load(func(number int) {
			patch(client, pods+"/"+names[number%some]+"/status", `{"status":{"message":"step %d"}}`, number)
		})
	case "watch":
		found = follow(client, connect())
	default:
		log.Fatalf("%s is none of create, get, status and watch", *job)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

// connect returns a client with connections of its own.
func connect() *http.Client {
	text, err := os.ReadFile(*ca)
	if err != nil {
		log.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(text)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: authorities},
		ForceAttemptHTTP2:   *protocol == "2",
		MaxIdleConnsPerHost: 1000,
		DisableCompression:  true,
	}
	if *protocol != "2" {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return &http.Client{Transport: transport}
}

// load does the work over and over, so many at once, and numbers each.
func load(work func(number int)) result {
	var (
		next  atomic.Int64
		took  = make([][]float64, *atOnce)
		done  sync.WaitGroup
		start = time.Now()
	)
	end := start.Add(time.Duration(*seconds * float64(time.Second)))
	for worker := range took {
		done.Add(1)
		go func() {
			defer done.Done()
			for {
				number := int(next.Add(1))
				if (*units > 0 && number > *units) || (*units == 0 && time.Now().After(end)) {
					return
				}
				begun := time.Now()
				work(number)
				took[worker] = append(took[worker], time.Since(begun).Seconds()*1e3)
			}
		}()
	}
	done.Wait()
	return summary(took, time.Since(start))
}

func summary(took [][]float64, all time.Duration) result {
	var times []float64
	for _, each := range took {
		times = append(times, each...)
	}
	sort.Float64s(times)
	if len(times) == 0 {
		return result{}
	}
	return result{len(times), all.Seconds(), times[len(times)/2], times[len(times)*99/100], 0}
}

// follow opens watches, makes changes, and waits until every watch has seen all of them.
//
// A server may end a watch whose client it takes for slow. The watch then begins again behind the last change that it
// saw, as the watches of client-go do.
func follow(watching, writing *http.Client) result {
	names := fill(writing, maps, configMap)
	var newest object
	read(ask(writing, "GET", maps+"/"+names[some-1], "", nil), &newest)
	var opened, ended sync.WaitGroup
	var reopened atomic.Int64
	opened.Add(*watches)
	ended.Add(*watches)
	for range *watches {
		go func() {
			defer ended.Done()
			var once sync.Once
			version := newest.Metadata.ResourceVersion
			for left := *changes; left > 0; {
				count, last := see(watching, version, left, func() { once.Do(opened.Done) })
				left, version = left-count, last
				if left > 0 {
					reopened.Add(1)
				}
			}
		}()
	}
	opened.Wait()
	*units = *changes
	start := time.Now()
	found := load(func(number int) {
		patch(writing, maps+"/"+names[number%some], `{"metadata":{"labels":{"step":"%d"}}}`, number)
	})
	ended.Wait()
	found.Units, found.Seconds = *watches**changes, time.Since(start).Seconds()
	found.Reopened = reopened.Load()
	return found
}

// see follows a watch up to so many changes, and returns how many there were and the version of the last one.
func see(client *http.Client, version string, most int, opened func()) (int, string) {
	answer := send(client, "GET", maps+"?watch=1&resourceVersion="+version, "", nil)
	defer answer.Body.Close()
	opened()
	lines := bufio.NewReaderSize(answer.Body, 64<<10)
	for count := 0; ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return count, version
		}
		if !bytes.HasPrefix(line, []byte(`{"type":"MODIFIED"`)) {
			log.Fatalf("no change: %.200s", line)
		}
		count++
		version = versionIn(line)
		if count == most {
			return count, version
		}
	}
}

// versionIn finds the version of an object without decoding it: it is in the metadata, before all that users write.
func versionIn(line []byte) string {
	_, rest, _ := bytes.Cut(line, []byte(`"resourceVersion":"`))
	version, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(version)
}

func fill(client *http.Client, path string, make_ func(name string) string) []string {
	names := make([]string, some)
	for number := range names {
		names[number] = fmt.Sprintf("some-%s-%d", run, number)
		read(ask(client, "POST", path, "application/json", []byte(make_(names[number]))), &object{})
	}
	return names
}

func create(client *http.Client, number int) {
	ask(client, "POST", maps, "application/json", []byte(configMap(fmt.Sprintf("m%s-%d", run, number))))
}

func configMap(name string) string {
	meta := fmt.Sprintf(`{"name":"%s","labels":{"app":"train"}}`, name)
	return fmt.Sprintf(`{"metadata":%s,"data":{"a":"%s"}}`, meta, strings.Repeat("x", 1000))
}

// pod returns a pod that no scheduler looks at.
func pod(name string) string {
	spec := `{"schedulerName":"nobody","automountServiceAccountToken":false,"containers":[{"name":"c","image":"none"}]}`
	return fmt.Sprintf(`{"metadata":{"name":"%s"},"spec":%s}`, name, spec)
}

func patch(client *http.Client, path, text string, number int) {
	ask(client, "PATCH", path, "application/merge-patch+json", fmt.Appendf(nil, text, number))
}

func ask(client *http.Client, method, path, type_ string, body []byte) []byte {
	answer := send(client, method, path, type_, body)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatalf("%s %s: %v", method, path, err)
	}
	return text
}

func send(client *http.Client, method, path, type_ string, body []byte) *http.Response {
	request, err := http.NewRequest(method, *url+path, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "benchmark")
	if type_ != "" {
		request.Header.Set("Content-Type", type_)
	}
	answer, err := client.Do(request)
	if err != nil {
		log.Fatalf("%s %s: %v", method, path, err)
	}
	if answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(answer.Body)
		log.Fatalf("%s %s: %s %s", method, path, answer.Status, text)
	}
	return answer
}

func read(text []byte, into *object) {
	if err := json.Unmarshal(text, into); err != nil {
		log.Fatal(err)
	}
}
