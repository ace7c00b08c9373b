// Programs of the sandbox's images that machines do not have: the pause container of a pod, a small
// real training, a small server, and a replay of NCCL's RAS. It is one static binary that selects
// the program by its own name.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "pause":
		pause()
	case "train":
		train()
	case "serve":
		serve()
	case "ras":
		ras()
	default:
		log.Fatalf("toolbox: call it as pause, train, serve or ras, not as %s", os.Args[0])
	}
}

func asked(signals ...os.Signal) chan os.Signal {
	channel := make(chan os.Signal, 1)
	signal.Notify(channel, signals...)
	return channel
}

// pause holds a pod's namespaces and reaps orphaned processes.
func pause() {
	children := asked(syscall.SIGCHLD)
	end := asked(syscall.SIGINT, syscall.SIGTERM)
	for {
		select {
		case <-children:
			for {
				if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
					break
				}
			}
		case <-end:
			return
		}
	}
}

// train fits a line to noisy points by gradient descent, so its loss really falls. It writes
// checkpoints, resumes from the last one, and saves another one on SIGTERM.
func train() {
	steps := flag.Int("steps", 200, "steps to train")
	pause := flag.Duration("pause", 50*time.Millisecond, "time per step")
	folder := flag.String("checkpoints", "/tmp/checkpoints", "folder of the checkpoints")
	every := flag.Int("every", 20, "steps between checkpoints")
	grace := flag.Duration("grace", 0, "time that saving takes after SIGTERM")
	flag.Parse()
	end := asked(syscall.SIGTERM)
	if err := os.MkdirAll(*folder, 0o755); err != nil {
		log.Fatal(err)
	}
	file := filepath.Join(*folder, "checkpoint")
	step, slope, offset := restore(file)
	if step > 0 {
		fmt.Printf("[INFO] resumed from step %d\n", step)
	}
	fmt.Printf("[INFO] training on GPUs %s\n", os.Getenv("NVIDIA_VISIBLE_DEVICES"))
	save := func() {
		text := fmt.Sprintf("%d %g %g\n", step, slope, offset)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("[INFO] saved checkpoint of step %d\n", step)
	}
	random := rand.New(rand.NewSource(1))
	for step < *steps {
		started := time.Now()
		loss := 0.0
		const batch = 64
		slopeGradient, offsetGradient := 0.0, 0.0
		for range batch {
			x := random.Float64()*2 - 1
			wrong := slope*x + offset - (3*x + 1 + random.NormFloat64()*0.1)
			loss += wrong * wrong / batch
			slopeGradient += 2 * wrong * x / batch
			offsetGradient += 2 * wrong / batch
		}
		slope, offset = slope-0.05*slopeGradient, offset-0.05*offsetGradient
		step++
		if step%10 == 0 || step == *steps {
			fmt.Printf("[INFO] step %d/%d loss=%.4f samples/s=%.0f\n", step, *steps, loss, batch/(*pause+time.Since(started)).Seconds())
		}
		if step%*every == 0 {
			save()
		}
		select {
		case <-end:
			fmt.Println("[INFO] told to end, saving")
			time.Sleep(*grace)
			save()
			os.Exit(143)
		case <-time.After(*pause):
		}
	}
	save()
	fmt.Printf("[INFO] done: slope %.2f, offset %.2f\n", slope, offset)
}

func restore(file string) (step int, slope, offset float64) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, 0
	}
	if _, err := fmt.Sscan(string(text), &step, &slope, &offset); err != nil {
		log.Fatalf("%s is not a checkpoint: %v", file, err)
	}
	return step, slope, offset
}

// ras replays NCCL's RAS subsystem: it answers the request `verbose status` with a recorded
// transcript.
func ras() {
	transcript, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:28028")
	if err != nil {
		log.Fatal(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		question, _ := bufio.NewReader(connection).ReadString('\n')
		if question == "verbose status\n" {
			_, _ = connection.Write(transcript)
		}
		_ = connection.Close()
	}
}

// serve listens on a port. It is unhealthy while the file /tmp/unhealthy exists.
func serve() {
	port := 8000
	if len(os.Args) > 1 {
		var err error
		if port, err = strconv.Atoi(strings.TrimPrefix(os.Args[1], ":")); err != nil {
			log.Fatal(err)
		}
	}
	http.HandleFunc("/health", func(writer http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat("/tmp/unhealthy"); err == nil {
			http.Error(writer, "unhealthy", http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/", func(writer http.ResponseWriter, _ *http.Request) {
		host, _ := os.Hostname()
		fmt.Fprintf(writer, "%s serves on GPUs %s\n", host, os.Getenv("NVIDIA_VISIBLE_DEVICES"))
	})
	fmt.Printf("[INFO] listening on :%d\n", port)
	go func() { <-asked(syscall.SIGTERM); os.Exit(0) }()
	log.Fatal(http.ListenAndServe(fmt.Sprintf(":%d", port), nil))
}
