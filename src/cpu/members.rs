//! The nodes of a step of a plan: one, or several products of the same left operand.

use super::lower::Lowered;
use super::memory::Io;
use super::schedule::partition::{Shape, partition};
use super::schedule::tiles::{Beside, Together};
use super::steps::{Env, Run};
use crate::ir::Node;
use crate::memory::ALIGNMENT;
use std::ops::Range;

/// A lowered node of a step.
pub struct Member {
    /// The node's own step.
    pub lowered: Lowered,
    /// Number of operands, including those of the epilogue.
    operands: u32,
    /// Scratch memory, in units of [`ALIGNMENT`].
    scratch: u32,
}

impl Member {
    /// The lowered `node`.
    pub fn new(node: &Node, lowered: Lowered) -> Member {
        let operands = node.inputs.len() + node.epilogue.operands.len();
        Member { lowered, operands: operands as u32, scratch: 0 }
    }

    /// Splits off the node's memory.
    fn split<'a>(&self, io: &mut Io<'a>) -> Io<'a> {
        io.split(self.operands as usize, self.scratch as usize * ALIGNMENT)
    }
}

/// The lowered nodes of a step, which follow each other in the graph.
pub struct Members {
    /// The index of the first node.
    pub first: u32,
    /// The nodes.
    pub all: Vec<Member>,
    /// Whether one section of the threads computes all of several nodes. Otherwise, one follows the other.
    are_joint: bool,
}

impl Members {
    /// The step of the node at index `first`.
    pub fn new(first: usize, member: Member) -> Members {
        Members { first: first as u32, all: vec![member], are_joint: false }
    }

    /// The indices of the nodes.
    pub fn nodes(&self) -> Range<usize> {
        self.first as usize..self.first as usize + self.all.len()
    }

    /// Adapts the nodes to each other, after any of them has changed. Returns the bytes of scratch memory that the step
    /// needs on `threads` threads.
    pub fn join(&mut self, threads: usize) -> usize {
        if let [only] = &self.all[..] {
            return only.lowered.step.scratch_bytes(threads);
        }
        let grid = self.shape().map(|shape| partition(&shape, threads));
        self.all.iter_mut().for_each(|member| member.lowered.step.join(grid));
        self.are_joint = grid.is_some();
        for member in &mut self.all {
            let units = member.lowered.step.scratch_bytes(threads).div_ceil(ALIGNMENT);
            member.scratch = units.try_into().expect("scratch memory of less than 256 GiB");
        }
        self.all.iter().map(|member| member.scratch as usize * ALIGNMENT).sum()
    }

    /// All products side by side, if they can be computed together.
    fn shape(&self) -> Option<Shape> {
        let first = &self.all[0].lowered.step;
        let mut shapes = self.all.iter().map(|member| member.lowered.step.shape_beside(first));
        let own = shapes.next()??;
        shapes.try_fold(own, |all, next| all.beside(next?))
    }

    /// Computes the nodes. `io` has the operands, outputs and scratch memory of one after the other.
    pub fn run(&self, env: &Env, io: &mut Io) {
        match &self.all[..] {
            [only] => only.lowered.step.run(env, io),
            _ if self.are_joint => self.run_joint(0, env, io, None),
            all => all.iter().for_each(|member| member.lowered.step.run(env, &mut member.split(io))),
        }
    }

    /// Computes the nodes from `index` on together with those before.
    fn run_joint(&self, index: usize, env: &Env, io: &mut Io, before: Option<Together>) {
        let Some(member) = self.all.get(index) else {
            return before.into_iter().for_each(|all| all.share(env.threads));
        };
        let mut own = member.split(io);
        let next = &mut |all: Option<Together>| self.run_joint(index + 1, env, io, all);
        member.lowered.step.run_beside(env, &mut own, Beside::new(env.threads, before, next));
    }
}
