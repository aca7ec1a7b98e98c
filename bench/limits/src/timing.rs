//! Best times.

use std::sync::Barrier;
use std::time::Instant;

/// The best time of a call in seconds; calls `work` at least once, for about `seconds`.
pub fn best_of(seconds: f64, mut work: impl FnMut()) -> f64 {
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    loop {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
        if begin.elapsed().as_secs_f64() >= seconds {
            return best;
        }
    }
}

/// The best time in seconds, from the first start to the last end, in which each of `threads` threads calls `work` once
/// with its number; repeats for about `seconds`. A call should last some milliseconds, because the threads do not start
/// at exactly the same time.
pub fn best_on_threads(threads: usize, seconds: f64, work: impl Fn(usize) + Sync) -> f64 {
    if threads == 1 {
        return best_of(seconds, || work(0));
    }
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    while best.is_infinite() || begin.elapsed().as_secs_f64() < seconds {
        best = best.min(once_on_threads(threads, &work));
    }
    best
}

fn once_on_threads(threads: usize, work: &(impl Fn(usize) + Sync)) -> f64 {
    let ready = Barrier::new(threads);
    let timed = &|index| {
        ready.wait();
        let start = Instant::now();
        work(index);
        (start, Instant::now())
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|index| scope.spawn(move || timed(index))).collect();
        let times: Vec<_> = handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect();
        let (first, last) = (times.iter().map(|time| time.0).min(), times.iter().map(|time| time.1).max());
        last.zip(first).map_or(f64::INFINITY, |(last, first)| (last - first).as_secs_f64())
    })
}
