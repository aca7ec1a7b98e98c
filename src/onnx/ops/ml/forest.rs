//! Decision trees as files describe them, and as `treeEnsemble` takes them: each comparison is whether a feature is at
//! most a threshold, a number of the type of the features.

use crate::onnx::call::Step;
use crate::onnx::error::Refusal;

/// How a branch compares its feature with its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Whether it is at most the value.
    AtMost,
    /// Whether it is below the value.
    Below,
    /// Whether it is at least the value.
    AtLeast,
    /// Whether it is above the value.
    Above,
    /// Whether it is the value.
    Equal,
    /// Whether it is not the value.
    NotEqual,
    /// Whether it is one of a set.
    Member,
}

impl Mode {
    /// The mode with this name in `TreeEnsembleRegressor`.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn named(name: &str) -> Step<Mode> {
        Ok(match name {
            "BRANCH_LEQ" => Mode::AtMost,
            "BRANCH_LT" => Mode::Below,
            "BRANCH_GTE" => Mode::AtLeast,
            "BRANCH_GT" => Mode::Above,
            "BRANCH_EQ" => Mode::Equal,
            "BRANCH_NEQ" => Mode::NotEqual,
            _ => {
                let known = "LEAF, or BRANCH_ with LEQ, LT, GTE, GT, EQ or NEQ";
                return Err(Refusal(format!("a node has the mode {name}, expected {known}")));
            }
        })
    }

    /// The mode with this number in `TreeEnsemble`.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn numbered(number: f64) -> Step<Mode> {
        use Mode::*;
        let all = [AtMost, Below, AtLeast, Above, Equal, NotEqual, Member];
        let found = all.into_iter().enumerate().find(|&(at, _)| at as f64 == number);
        found.map(|(_, mode)| mode).ok_or_else(|| Refusal(format!("a node has the mode {number}, expected 0 to 6")))
    }
}

/// The numbers that features, thresholds and weights are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numbers {
    /// Those of float32.
    Floats,
    /// Those of float64.
    Doubles,
}

impl Numbers {
    /// The nearest one.
    fn nearest(self, value: f64) -> f64 {
        if self == Numbers::Floats { f64::from(value as f32) } else { value }
    }

    /// The next smaller one.
    fn next_down(self, value: f64) -> f64 {
        if self == Numbers::Floats { f64::from((value as f32).next_down()) } else { value.next_down() }
    }

    /// The largest one that is at most `value`: as many of them are at most either.
    fn at_most(self, value: f64) -> f64 {
        let near = self.nearest(value);
        if near > value { self.next_down(near) } else { near }
    }

    /// The largest one below `value`, if there is one.
    fn below(self, value: f64) -> Option<f64> {
        let near = self.at_most(value);
        if near < value { Some(near) } else { (near > f64::NEG_INFINITY).then(|| self.next_down(near)) }
    }
}

/// Where a side of a branch leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Child {
    /// To the branch with this number.
    Branch(usize),
    /// To the leaf with this number.
    Leaf(usize),
}

/// A branch of a file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The feature to compare.
    pub feature: u32,
    /// How to compare it.
    pub mode: Mode,
    /// What to compare it with.
    pub value: f64,
    /// The set of [`Mode::Member`].
    pub members: Vec<f64>,
    /// Whether NaN leads to the first child, whatever the mode.
    pub counts_missing: bool,
    /// Where it leads if the comparison holds, and if not.
    pub children: [Child; 2],
}

impl Source {
    /// Whether NaN leads to the first child.
    fn takes_missing(&self) -> bool {
        self.counts_missing || self.mode == Mode::NotEqual
    }

    /// The comparisons with thresholds that take the place of this branch.
    fn tests(&self, numbers: Numbers) -> Vec<Test> {
        let missing = self.takes_missing();
        let test = |threshold: Option<f64>, swapped: bool| {
            // No number is at most NaN.
            let threshold = threshold.unwrap_or(f64::NAN);
            let sides = if swapped { [Side::No, Side::Yes] } else { [Side::Yes, Side::No] };
            vec![Test { threshold, sides, missing: missing != swapped }]
        };
        match self.mode {
            _ if self.value.is_nan() && !matches!(self.mode, Mode::Member | Mode::NotEqual) => test(None, false),
            Mode::AtMost => test(Some(numbers.at_most(self.value)), false),
            Mode::Below => test(numbers.below(self.value), false),
            Mode::AtLeast => test(numbers.below(self.value), true),
            Mode::Above => test(Some(numbers.at_most(self.value)), true),
            Mode::Equal => among(numbers, &[self.value], [Side::Yes, Side::No], missing),
            Mode::NotEqual => among(numbers, &[self.value], [Side::No, Side::Yes], !missing),
            Mode::Member => among(numbers, &self.members, [Side::Yes, Side::No], missing),
        }
    }
}

/// Where a test leads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    /// To the first child of its branch.
    Yes,
    /// To the second one.
    No,
    /// To the test of the same branch with this number.
    Test(usize),
}

/// Whether a feature is at most a threshold.
#[derive(Clone, Copy, Debug)]
struct Test {
    threshold: f64,
    /// Where it leads if the feature is, and if not.
    sides: [Side; 2],
    /// Whether NaN counts as at most the threshold.
    missing: bool,
}

/// Tests that lead to the first side for the numbers in `set`, else to the second; NaN leads to the first one if
/// `missing`.
fn among(numbers: Numbers, set: &[f64], [inside, outside]: [Side; 2], missing: bool) -> Vec<Test> {
    // No feature is another number.
    let mut set: Vec<f64> = set.iter().copied().filter(|&x| numbers.nearest(x) == x).collect();
    set.sort_by(f64::total_cmp);
    set.dedup();
    let mut tests = Vec::new();
    for (at, &number) in set.iter().enumerate() {
        let next = if at + 1 < set.len() { Side::Test(2 * at + 2) } else { outside };
        tests.push(Test { threshold: number, sides: [Side::Test(2 * at + 1), next], missing });
        let threshold = numbers.below(number).unwrap_or(f64::NAN);
        tests.push(Test { threshold, sides: [outside, inside], missing: false });
    }
    if tests.is_empty() {
        tests.push(Test { threshold: f64::NAN, sides: [inside, outside], missing });
    }
    tests
}

/// The weight of a leaf for a target.
#[derive(Clone, Copy, Debug)]
pub struct Vote {
    /// The target or class.
    pub target: i64,
    /// The weight.
    pub weight: f64,
}

/// All trees of a node.
#[derive(Debug)]
pub struct Forest {
    /// What features are.
    pub numbers: Numbers,
    /// The branches; `None` for a number that is that of a leaf.
    pub branches: Vec<Option<Source>>,
    /// The votes of leaves.
    pub leaves: Vec<Vec<Vote>>,
    /// Where trees begin.
    pub roots: Vec<Child>,
}

/// The operands of `treeEnsemble` behind the input.
#[derive(Debug, Default)]
pub struct Packed {
    /// The thresholds of branches.
    pub thresholds: Vec<f64>,
    /// Their features and where they lead.
    pub branches: Vec<[i32; 4]>,
    /// Where trees begin.
    pub roots: Vec<i32>,
    /// Where the votes of leaves begin, and the end of the last ones.
    pub leaves: Vec<i32>,
    /// The targets of votes.
    pub targets: Vec<i32>,
    /// The weights of votes.
    pub weights: Vec<f64>,
    /// The largest feature of a branch.
    pub most_feature: Option<u32>,
}

/// A place in [`Packed`] that is not known yet: that of a root, or a side of a branch.
#[derive(Clone, Copy)]
enum Slot {
    Root(usize),
    Side(usize, usize),
}

impl Packed {
    fn fill(&mut self, slots: &[Slot], place: i32) {
        for &slot in slots {
            match slot {
                Slot::Root(tree) => self.roots[tree] = place,
                Slot::Side(branch, side) => self.branches[branch][1 + side] = place,
            }
        }
    }

    /// Adds tests of the branch `source`, the first of which belongs in `slots`. Returns the slots of its children.
    fn add_branch(&mut self, source: &Source, numbers: Numbers, slots: &[Slot]) -> Step<[Vec<Slot>; 2]> {
        let (first, tests) = (self.branches.len(), source.tests(numbers));
        self.fill(slots, number(first)?);
        let mut children = [Vec::new(), Vec::new()];
        for (at, test) in tests.into_iter().enumerate() {
            self.thresholds.push(test.threshold);
            self.branches.push([source.feature as i32, 0, 0, test.missing.into()]);
            for (side, to) in test.sides.into_iter().enumerate() {
                match to {
                    Side::Yes => children[0].push(Slot::Side(first + at, side)),
                    Side::No => children[1].push(Slot::Side(first + at, side)),
                    Side::Test(test) => self.branches[first + at][1 + side] = number(first + test)?,
                }
            }
        }
        self.most_feature = self.most_feature.max(Some(source.feature));
        Ok(children)
    }

    /// Adds a leaf with these votes, which belongs in `slots`.
    fn add_leaf(&mut self, votes: &[Vote], targets: u32, numbers: Numbers, slots: &[Slot]) -> Step<()> {
        self.fill(slots, -1 - number(self.leaves.len() - 1)?);
        for &Vote { target, weight } in votes {
            let valid = u32::try_from(target).ok().filter(|&target| target < targets);
            let valid = valid.ok_or_else(|| Refusal(format!("a leaf has the target {target}, there are {targets}")))?;
            if weight.is_nan() {
                return Err("the weight of a leaf is NaN".into());
            }
            self.targets.push(valid as i32);
            self.weights.push(numbers.nearest(weight));
        }
        self.leaves.push(number(self.targets.len())?);
        Ok(())
    }
}

/// The number of a place.
fn number(at: usize) -> Step<i32> {
    i32::try_from(at).ok().filter(|&at| at < 1 << 30).ok_or_else(|| "the trees have more than 2^30 nodes".into())
}

impl Forest {
    /// A forest with this number of leaves without votes, and without branches.
    pub fn new(numbers: Numbers, leaves: usize) -> Forest {
        Forest { numbers, branches: Vec::new(), leaves: vec![Vec::new(); leaves], roots: Vec::new() }
    }

    fn votes(&self) -> impl Iterator<Item = &Vote> {
        self.leaves.iter().flatten()
    }

    /// The target of all votes, if it is the same.
    pub fn only_target(&self) -> Option<i64> {
        let first = self.votes().next()?.target;
        self.votes().all(|vote| vote.target == first).then_some(first)
    }

    /// Makes the only target of all votes the first one.
    pub fn retarget(&mut self) {
        self.leaves.iter_mut().flatten().for_each(|vote| vote.target = 0);
    }

    /// Whether a weight is negative.
    pub fn has_negative(&self) -> bool {
        self.votes().any(|vote| vote.weight < 0.0)
    }

    /// Whether some of several classes may get no votes, and lose against one with a negative sum although 0 is more.
    pub fn may_lack_votes(&self, classes: u32) -> bool {
        // Without negative weights, the winner of all has the most in any case.
        self.has_negative()
            && !(0..i64::from(classes)).all(|class| self.roots.iter().any(|&root| self.all_vote(root, class)))
    }

    /// Whether all leaves of a tree vote for a class. [`packed`](Self::packed) has found no circle.
    fn all_vote(&self, root: Child, class: i64) -> bool {
        let (mut open, mut steps) = (vec![root], 0);
        while let Some(next) = open.pop() {
            steps += 1;
            match next {
                // A tree visits no node twice.
                _ if steps > self.branches.len() + self.leaves.len() => return false,
                Child::Leaf(at) if !self.leaves[at].iter().any(|vote| vote.target == class) => return false,
                Child::Leaf(_) => {}
                Child::Branch(at) => open.extend(self.branches[at].iter().flat_map(|source| source.children)),
            }
        }
        true
    }

    /// The operands of `treeEnsemble` with this number of targets.
    ///
    /// # Errors
    /// If the trees have circles, several parents for a node, targets outside of their range, or no votes.
    pub fn packed(&self, targets: u32) -> Step<Packed> {
        let mut packed = Packed { roots: vec![0; self.roots.len()], leaves: vec![0], ..Packed::default() };
        let mut seen = [vec![false; self.branches.len()], vec![false; self.leaves.len()]];
        for (tree, &root) in self.roots.iter().enumerate() {
            let mut open = vec![(root, vec![Slot::Root(tree)])];
            while let Some((child, slots)) = open.pop() {
                let (kind, at) = match child {
                    Child::Branch(at) => (0, at),
                    Child::Leaf(at) => (1, at),
                };
                if std::mem::replace(&mut seen[kind][at], true) {
                    let what = ["node", "leaf"][kind];
                    return Err(Refusal(format!("{what} {at} is reached twice, expected trees without circles")));
                }
                match &self.branches.get(at).filter(|_| kind == 0) {
                    Some(Some(source)) => {
                        let [yes, no] = packed.add_branch(source, self.numbers, &slots)?;
                        open.extend([(source.children[1], no), (source.children[0], yes)]);
                    }
                    _ => packed.add_leaf(&self.leaves[at], targets, self.numbers, &slots)?,
                }
            }
        }
        if packed.targets.is_empty() {
            return Err("no leaf of the trees has a weight".into());
        }
        if packed.branches.is_empty() {
            // Tensors have elements: a branch that nothing leads to.
            packed.thresholds.push(0.0);
            packed.branches.push([0, -1, -1, 0]);
        }
        Ok(packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: [Mode; 7] =
        [Mode::AtMost, Mode::Below, Mode::AtLeast, Mode::Above, Mode::Equal, Mode::NotEqual, Mode::Member];

    /// The definition of the modes.
    fn holds(source: &Source, x: f64) -> bool {
        if x.is_nan() && source.counts_missing {
            return true;
        }
        match source.mode {
            Mode::AtMost => x <= source.value,
            Mode::Below => x < source.value,
            Mode::AtLeast => x >= source.value,
            Mode::Above => x > source.value,
            Mode::Equal => x == source.value,
            Mode::NotEqual => x != source.value,
            Mode::Member => source.members.contains(&x),
        }
    }

    /// The leaf that `x` reaches.
    fn reached(packed: &Packed, x: f64) -> i32 {
        let mut place = packed.roots[0];
        while let Ok(at) = usize::try_from(place) {
            let [_, at_most, above, missing] = packed.branches[at];
            let is_at_most = if x.is_nan() { missing != 0 } else { x <= packed.thresholds[at] };
            let next = if is_at_most { at_most } else { above };
            assert!(next < 0 || next > place, "branches lead to those behind them: {packed:?}");
            place = next;
        }
        -1 - place
    }

    #[test]
    fn thresholds_part_numbers_as_every_mode_does() {
        let max = f64::from(f32::MAX);
        let near = [0.0, 1.0, -1.0, 0.1, 1e-45, 1e-50, max, 2.0 * max, 16_777_217.0, f64::INFINITY];
        let values: Vec<f64> = near.iter().flat_map(|&x| [x, -x]).chain([f64::NAN]).collect();
        let floats = values.iter().map(|&value| value as f32).flat_map(|x| [x, x.next_down(), x.next_up()]);
        let floats: Vec<f64> = floats.chain([f32::NAN]).map(f64::from).collect();
        let doubles = values.iter().flat_map(|x| [*x, x.next_down(), x.next_up()]).chain(floats.iter().copied());
        let doubles: Vec<f64> = doubles.collect();
        for mode in MODES {
            for &value in &values {
                for counts_missing in [false, true] {
                    for members in [vec![], vec![value], vec![value, 1.0, -0.0, 3.5, 1.0, 0.1]] {
                        let children = [Child::Leaf(0), Child::Leaf(1)];
                        let source = Source { feature: 0, mode, value, members, counts_missing, children };
                        for (numbers, all) in [(Numbers::Floats, &floats), (Numbers::Doubles, &doubles)] {
                            let mut forest = Forest::new(numbers, 2);
                            forest.leaves.iter_mut().for_each(|votes| votes.push(Vote { target: 0, weight: 1.0 }));
                            forest.roots.push(Child::Branch(0));
                            forest.branches.push(Some(source.clone()));
                            let packed = forest.packed(1).unwrap();
                            // The first leaf that is found is the first child.
                            for &x in all {
                                let expected = i32::from(!holds(&source, x));
                                assert_eq!(reached(&packed, x), expected, "{source:?} of {x}: {packed:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn votes_that_may_be_missing_are_found() {
        let vote = |target: i64, weight: f64| vec![Vote { target, weight }];
        let branch = |children: [Child; 2]| {
            Some(Source {
                feature: 0,
                mode: Mode::AtMost,
                value: 0.0,
                members: vec![],
                counts_missing: false,
                children,
            })
        };
        let mut forest = Forest::new(Numbers::Floats, 0);
        forest.leaves = vec![vote(0, -1.0), vote(0, 1.0), vote(1, 1.0)];
        forest.branches = vec![branch([Child::Leaf(0), Child::Leaf(1)])];
        forest.roots = vec![Child::Branch(0), Child::Leaf(2)];
        assert!(!forest.may_lack_votes(2), "each tree votes for its class");
        assert!(forest.may_lack_votes(3));
        assert_eq!((forest.only_target(), forest.has_negative()), (None, true));
        forest.leaves[1] = vote(1, 1.0);
        assert!(forest.may_lack_votes(2));
        forest.leaves[0] = vote(0, 1.0);
        assert!(!forest.may_lack_votes(3), "without negative weights, nothing changes");
        forest.retarget();
        assert_eq!((forest.only_target(), forest.has_negative()), (Some(0), false));
    }
}
